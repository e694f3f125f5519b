//! Tests of control groups, in directories with the same files as the real file system.

use super::*;

#[test]
fn finds_the_group_of_a_process() {
    let v1 = "5:cpu,cpuacct:/a\n4:memory:/user/b\n0::/c\n";
    assert_eq!(home_of(v1, "memory"), Some(PathBuf::from("user/b")));
    assert_eq!(home_of(v1, ""), Some(PathBuf::from("c")));
    assert_eq!(home_of("", "memory"), None);
}

#[test]
fn no_number_is_no_limit() {
    assert!(Limit::apply(None, None, Some(1), None).unwrap().is_none());
}

/// A directory with the given files and contents, like the file system of control groups.
fn fake(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    dir
}

fn put(
    dir: &tempfile::TempDir,
    version: Version,
    mb: u64,
) -> Result<(PathBuf, PathBuf, String), String> {
    let group = group(
        &dir.path().join("cgroup"),
        &dir.path().join("proc"),
        version,
        77,
        mb << 20,
    )?;
    let relative = |path: &Path| {
        path.strip_prefix(dir.path().join("cgroup"))
            .unwrap()
            .to_owned()
    };
    let text = |file: &str| fs::read_to_string(group.path.join(file)).unwrap();
    assert_eq!(text("cgroup.procs"), "77");
    let at = relative(group.path.parent().unwrap());
    Ok((at, relative(&group.home), text(version.limit_file())))
}

#[test]
fn version_2_at_the_root_and_in_the_hybrid_layout() {
    for (place, mount) in [("cgroup", ""), ("cgroup/unified", "unified")] {
        let dir = fake(&[
            (&format!("{place}/cgroup.controllers"), "cpu io memory\n"),
            (
                &format!("{place}/system.slice/db.service/memory.max"),
                "max\n",
            ),
            ("proc/77/cgroup", "0::/system.slice/db.service\n"),
        ]);
        let (at, home, limit) = put(&dir, Version::Two, 512).unwrap();
        assert_eq!(
            (at, home),
            (
                PathBuf::from(mount),
                Path::new(mount).join("system.slice/db.service")
            )
        );
        assert_eq!(limit, (512_u64 << 20).to_string());
        let control = dir.path().join(place).join("cgroup.subtree_control");
        assert_eq!(fs::read_to_string(control).unwrap(), "+memory");
    }
}

#[test]
fn a_limit_above_is_never_escaped() {
    let gb = (1_u64 << 30).to_string();
    let v2 = fake(&[
        ("cgroup/cgroup.controllers", "memory\n"),
        ("cgroup/box/memory.max", &gb),
        ("cgroup/box/db/memory.max", "max\n"),
        ("proc/77/cgroup", "0::/box/db\n"),
    ]);
    assert_eq!(put(&v2, Version::Two, 512).unwrap().0, Path::new("box"));
    let reason = put(&v2, Version::Two, 2_048).unwrap_err();
    assert!(reason.contains("allows only 1024 MiB"), "{reason}");
    let own = fake(&[
        ("cgroup/cgroup.controllers", "memory\n"),
        ("cgroup/box/db/memory.max", &gb),
        ("proc/77/cgroup", "0::/box/db\n"),
    ]);
    assert_eq!(put(&own, Version::Two, 512).unwrap().0, Path::new("box"));
    let v1 = fake(&[
        (
            "cgroup/memory/memory.limit_in_bytes",
            "9223372036854771712\n",
        ),
        ("cgroup/memory/box/memory.limit_in_bytes", &gb),
        ("proc/77/cgroup", "4:memory:/box\n0::/\n"),
    ]);
    assert_eq!(
        put(&v1, Version::One, 512).unwrap().0,
        Path::new("memory/box")
    );
}

#[test]
fn version_1_without_limits_makes_its_group_at_the_root() {
    let dir = fake(&[
        (
            "cgroup/memory/memory.limit_in_bytes",
            "9223372036854771712\n",
        ),
        (
            "cgroup/memory/box/memory.limit_in_bytes",
            "9223372036854771712\n",
        ),
        ("proc/77/cgroup", "4:memory:/box\n"),
    ]);
    let (at, home, limit) = put(&dir, Version::One, 256).unwrap();
    assert_eq!(
        (at, home),
        (PathBuf::from("memory"), PathBuf::from("memory/box"))
    );
    assert_eq!(limit, (256_u64 << 20).to_string());
}

#[test]
fn a_controller_that_is_not_there_is_a_reason() {
    let dir = fake(&[
        ("cgroup/unified/cgroup.controllers", "\n"),
        ("proc/77/cgroup", "0::/\n"),
    ]);
    assert_eq!(
        put(&dir, Version::Two, 1).unwrap_err(),
        "the memory controller is not there"
    );
    assert_eq!(
        put(&dir, Version::One, 1).unwrap_err(),
        "the memory controller is not there"
    );
}

#[test]
fn a_limit_that_killed_the_target_says_so() {
    for (version, file, none, some) in [
        (
            Version::One,
            "memory.oom_control",
            "under_oom 0\noom_kill 0\n",
            "under_oom 0\noom_kill 1\n",
        ),
        (
            Version::Two,
            "memory.events",
            "oom 1\noom_kill 0\n",
            "oom 3\noom_kill 2\n",
        ),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let limit = Limit {
            bytes: 1,
            held: LimitMethod::ControlGroup(ControlGroup {
                path: dir.path().to_owned(),
                home: dir.path().to_owned(),
                version,
            }),
            pid: None,
        };
        assert_eq!(limit.has_killed(), None);
        fs::write(dir.path().join(file), none).unwrap();
        assert_eq!(limit.has_killed(), Some(false));
        fs::write(dir.path().join(file), some).unwrap();
        assert_eq!(limit.has_killed(), Some(true));
    }
}

#[test]
fn groups_of_labs_that_are_gone_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    let proc = dir.path().join("proc");
    for name in [
        "groups/quarry-lab-5",
        "groups/quarry-lab-6",
        "groups/other",
        "proc/6",
    ] {
        fs::create_dir_all(dir.path().join(name)).unwrap();
    }
    remove_stale_groups(&dir.path().join("groups"), &proc);
    let left = |name: &str| dir.path().join("groups").join(name).exists();
    assert_eq!(
        (left("quarry-lab-5"), left("quarry-lab-6"), left("other")),
        (false, true, true)
    );
}
