//! The files of `deploy/` parse, and the options of their servers exist.

use std::fs;
use std::path::Path;

use clap::Parser;
use serde::Deserialize;
use serde_yaml_ng::{Deserializer, Value};
use server::config::{ServeArgs, Settings};
use server::engines::is_known;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: ServeArgs,
}

/// Finds lists of words that begin with `serve`.
fn commands(value: &Value, found: &mut Vec<Vec<String>>) {
    match value {
        Value::Sequence(items) => {
            let words: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
            match words {
                Some(words) if words.first() == Some(&"serve") => {
                    // Kubernetes replaces these by values of the environment.
                    let expanded = words.iter().map(|w| w.replace("$(NAMESPACE)", "default"));
                    found.push(expanded.collect());
                }
                _ => items.iter().for_each(|item| commands(item, found)),
            }
        }
        Value::Mapping(fields) => fields.values().for_each(|v| commands(v, found)),
        _ => {}
    }
}

#[test]
fn servers_have_options_that_there_are() {
    let folder = Path::new("../../deploy");
    let mut files = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let mut found = Vec::new();
        for document in Deserializer::from_str(&text) {
            let document = Value::deserialize(document).unwrap();
            commands(&document, &mut found);
        }
        let name = path.display();
        assert!(!found.is_empty(), "{name}: no server");
        for words in &found {
            let line = Line::try_parse_from(words).unwrap_or_else(|e| panic!("{name}: {e}"));
            let engine = line.args.storage_engine.as_deref().unwrap_or("rocksdb");
            if is_known(engine) {
                let settings = Settings::of(&line.args);
                assert!(settings.is_ok(), "{name}: {:?}", settings.err());
            }
        }
        files += 1;
    }
    assert_eq!(files, 5);
}

#[test]
fn servers_on_a_cluster_are_kept_apart_and_not_ended_together() {
    for (name, kind) in [
        ("kubernetes.tikv.yaml", "Deployment"),
        ("kubernetes.tikv-several.yaml", "StatefulSet"),
    ] {
        check_several(
            &fs::read_to_string(format!("../../deploy/{name}")).unwrap(),
            kind,
        );
    }
}

/// Checks the servers of a file; `kind` is that of what runs them.
fn check_several(text: &str, kind: &str) {
    let documents = Deserializer::from_str(text).map(|d| Value::deserialize(d).unwrap());
    let documents: Vec<Value> = documents.collect();
    let of = |kind: &str| {
        let found = documents.iter().find(|d| d["kind"] == kind);
        &found.unwrap_or_else(|| panic!("no {kind}"))["spec"]
    };
    let (deployment, budget) = (of(kind), of("PodDisruptionBudget"));
    let labels = &deployment["template"]["metadata"]["labels"];
    assert_eq!(&deployment["selector"]["matchLabels"], labels);
    assert_eq!(&budget["selector"]["matchLabels"], labels);
    assert_eq!(&of("Service")["selector"], labels);
    assert!(budget["maxUnavailable"].as_u64() < deployment["replicas"].as_u64());
    let pod = &deployment["template"]["spec"];
    let rule = "preferredDuringSchedulingIgnoredDuringExecution";
    let apart = &pod["affinity"]["podAntiAffinity"][rule][0]["podAffinityTerm"];
    assert_eq!(&apart["labelSelector"]["matchLabels"], labels);
    assert_eq!(apart["topologyKey"], "kubernetes.io/hostname");
    let server = &pod["containers"][0];
    for probe in ["readinessProbe", "livenessProbe"] {
        let asked = &server[probe]["tcpSocket"]["port"];
        assert_eq!(asked, &server["ports"][0]["containerPort"], "{probe}");
    }
}
