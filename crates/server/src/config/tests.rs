//! The command line over the file over defaults.

use super::*;

#[test]
fn command_line_wins_over_file_and_unknown_keys_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("quarry.yaml");
    std::fs::write(
        &path,
        "net:\n  port: 5\n  bindIp: 10.0.0.1, ::1\nstorage:\n  dbPath: \
        /x\nquarry:\n  memory: 1G\n  scanThreads: 3\n",
    )
    .unwrap();
    let args = ServeArgs {
        config: Some(path.clone()),
        port: Some(7),
        ..ServeArgs::default()
    };
    let s = Settings::of(&args).unwrap();
    assert_eq!((s.port, s.memory_bytes, s.bind_ip.len()), (7, 1 << 30, 2));
    assert_eq!(s.scan_threads, Some(3));
    assert_eq!(s.dbpath, PathBuf::from("/x"));
    assert!(s.without_effect.is_empty());
    let sections = "systemLog:\n  destination: file\n  path: /l\n  verbosity: 2\n\
                    processManagement:\n  timeZoneInfo: /usr/share/zoneinfo\n";
    std::fs::write(&path, sections).unwrap();
    let s = Settings::of(&args).unwrap();
    assert_eq!(s.without_effect, ["processManagement.timeZoneInfo"]);
    assert_eq!((s.log.path, s.log.verbosity), (Some("/l".into()), 2));
    for (refused, named) in [
        ("systemLog:\n  destination: syslog\n", "syslog"),
        ("systemLog:\n  destination: file\n", "systemLog.path"),
        (
            "systemLog:\n  component:\n    query: 1\n",
            "systemLog.component",
        ),
        (
            "systemLog:\n  timeStampFormat: iso8601-local\n",
            "iso8601-local",
        ),
        ("systemLog:\n  logAppend: true\n", "logpath"),
        ("processManagement:\n  fork: true\n", "logpath"),
        (
            "operationProfiling:\n  mode: some\n",
            "operationProfiling.mode",
        ),
    ] {
        std::fs::write(&path, refused).unwrap();
        let e = Settings::of(&args).unwrap_err();
        assert!(e.contains(named), "{refused}: {e}");
    }
    std::fs::write(&path, "net:\n  prot: 5\n").unwrap();
    assert!(Settings::of(&args).unwrap_err().contains("prot"));
    assert!(
        Settings::of(&ServeArgs {
            memory: Some("lots".into()),
            ..ServeArgs::default()
        })
        .is_err()
    );
}
