//! The alert rules and the dashboard for users: every metric in them exists in a server.

use std::collections::BTreeSet;
use std::path::Path;

use model::doc;

use crate::encryption::EncryptedServer;
use crate::logging::get;

/// Names of Quarry's metrics in a text.
fn names(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let words = text.split(|c| !is_part(c));
    let found = words.filter(|w| w.starts_with("quarry_"));
    found.map(str::to_owned).collect()
}

#[test]
fn rules_and_dashboard_name_metrics_that_there_are() {
    let dir = tempfile::tempdir().unwrap();
    let free = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = free.local_addr().unwrap().port().to_string();
    drop(free);
    let mut server = EncryptedServer::start(dir.path(), &["--metricsPort", &port]);
    server.ok(&doc! { "ping": 1i32, "$db": "admin" });
    let (_, told) = get(&format!("127.0.0.1:{port}"), "/metrics");
    let lines = told.lines().filter(|l| !l.starts_with('#'));
    let told: BTreeSet<String> = lines.flat_map(names).collect();
    let folder = Path::new("../../packaging/monitoring");
    for file in ["alerts.yaml", "grafana.json"] {
        let text = std::fs::read_to_string(folder.join(file)).unwrap();
        let named = names(&text);
        assert!(named.len() > 8, "{file} names {named:?}");
        let unknown: Vec<_> = named.difference(&told).collect();
        assert!(unknown.is_empty(), "{file}: {unknown:?}");
    }
    let rules = std::fs::read_to_string(folder.join("alerts.yaml")).unwrap();
    let rules: serde_yaml_ng::Value = serde_yaml_ng::from_str(&rules).unwrap();
    let rules = rules["groups"][0]["rules"].as_sequence().unwrap().clone();
    for rule in &rules {
        for field in ["alert", "expr"] {
            assert!(rule[field].as_str().is_some(), "{rule:?}");
        }
        assert!(
            rule["annotations"]["summary"].as_str().is_some(),
            "{rule:?}"
        );
        assert!(rule["labels"]["severity"].as_str().is_some(), "{rule:?}");
    }
    let dashboard = std::fs::read_to_string(folder.join("grafana.json")).unwrap();
    let dashboard: serde_json::Value = serde_json::from_str(&dashboard).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    assert!(panels.iter().all(|p| p["targets"][0]["expr"].is_string()));
}
