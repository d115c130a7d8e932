//! The container file: two stages, one binary, nobody is root; and its last stage, built and run where `buildah` is.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use crate::machine::build;
use crate::{Scratch, program, text};

/// Instructions of a container file, lines that are continued put together.
fn instructions(source: &str) -> Vec<(String, String)> {
    let joined = source.replace("\\\n", " ");
    joined
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            (word.to_owned(), rest.trim().to_owned())
        })
        .collect()
}

#[test]
fn the_image_holds_one_binary_and_no_root() {
    let all = instructions(&text("deploy/container/Containerfile"));
    let stages: Vec<usize> = (0..all.len()).filter(|&at| all[at].0 == "FROM").collect();
    let [build, last] = stages[..] else {
        panic!("there are {} stages", stages.len());
    };
    assert!(all[build].1.ends_with(" AS build"));
    for &stage in &stages {
        let image = all[stage].1.split(' ').next().unwrap_or_default();
        let tag = image.rsplit_once(':').map(|(_, tag)| tag);
        assert!(
            tag.is_some_and(|tag| tag != "latest"),
            "{image} names no version"
        );
    }
    let compiled = &all[build..last];
    assert!(
        compiled
            .iter()
            .any(|(word, rest)| word == "RUN" && rest.contains("cargo build --release --locked"))
    );
    let shipped = &all[last..];
    let one = |word: &str| {
        let found: Vec<_> = shipped.iter().filter(|(name, _)| name == word).collect();
        assert_eq!(found.len(), 1, "{word}");
        found[0].1.clone()
    };
    let copied = one("COPY");
    assert!(copied.starts_with("--from=build "));
    assert!(copied.ends_with("/project/target/release/scry /usr/bin/scry"));
    assert!(
        !shipped
            .iter()
            .any(|(word, _)| word == "RUN" || word == "ADD")
    );
    let user = one("USER");
    let id: u32 = user
        .split(':')
        .next()
        .and_then(|id| id.parse().ok())
        .expect("the user is a number, so that it can be seen not to be root");
    assert!(id > 0);
    let entry: Vec<String> =
        serde_json::from_str(&one("ENTRYPOINT")).expect("the entry point needs no shell");
    assert_eq!(entry, ["/usr/bin/scry"]);
}

#[test]
fn the_toolchain_of_the_image_is_that_of_the_workspace() {
    let workspace: toml::Table = text("Cargo.toml").parse().expect("the workspace is TOML");
    let version = workspace["workspace"]["package"]["rust-version"]
        .as_str()
        .expect("the workspace names its toolchain")
        .to_owned();
    let file = text("deploy/container/Containerfile");
    assert!(file.contains(&format!("rust:{version}-slim")));
}

/// Copies a binary and the libraries that the loader says it needs, each to its own place below a folder.
fn complete_root(binary: &Path, root: &Path) {
    let copy = |from: &Path, to: &Path| {
        let folder = to.parent().expect("a file is in a folder");
        fs::create_dir_all(folder).expect("folders can be made");
        fs::copy(from, to).expect("files can be copied");
    };
    copy(binary, &root.join("usr/bin/scry"));
    let listed = Command::new("ldd").arg(binary).output();
    let listed = listed.expect("ldd can be started").stdout;
    let listed = String::from_utf8_lossy(&listed).into_owned();
    let libraries = listed
        .split_whitespace()
        .filter(|word| word.starts_with('/'));
    for library in libraries {
        let to = root.join(library.trim_start_matches('/'));
        copy(Path::new(library), &to);
    }
}

#[test]
fn the_image_is_built_and_runs_as_nobody() {
    let left_out = "the image was not built and not run";
    if fs::metadata("/proc/self").expect("there is /proc").uid() != 0 {
        eprintln!("not root: {left_out}");
        return;
    }
    let (Some(buildah), Some(_)) = (program("buildah"), program("ldd")) else {
        eprintln!("no buildah: {left_out}");
        return;
    };
    let folder = Scratch::new("image");
    let binaries = build(&[("scry-agent", "scry")]);
    complete_root(&binaries.join("scry"), &folder.path().join("root"));
    let configuration = "[node]\nid = 1\n[peers]\nlisten = \"\"\n";
    let file = folder.path().join("root/etc/scry/scry.toml");
    fs::create_dir_all(file.parent().expect("a folder")).expect("folders can be made");
    fs::write(file, configuration).expect("files can be written");
    // The last stage as it is, but for what has to be fetched: the base image, and what the first stage compiled.
    let all = instructions(&text("deploy/container/Containerfile"));
    let last = all
        .iter()
        .rposition(|(word, _)| word == "FROM")
        .expect("a stage");
    let mut stage = "FROM scratch\nCOPY root/ /\n".to_owned();
    for (word, rest) in &all[last + 1..] {
        if word != "COPY" {
            stage += &format!("{word} {rest}\n");
        }
    }
    fs::write(folder.path().join("Containerfile"), stage).expect("files can be written");
    let run = |arguments: &[&str]| {
        let output = Command::new(&buildah)
            .arg("--root")
            .arg(folder.path().join("store"))
            .arg("--runroot")
            .arg(folder.path().join("run"))
            .args(["--storage-driver", "vfs"])
            .args(arguments)
            .current_dir(folder.path())
            .output()
            .expect("buildah can be started");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.success(), said, errors)
    };
    let (built, said, errors) = run(&["build", "--isolation", "chroot", "--tag", "scry", "."]);
    assert!(built, "{said}{errors}");
    let (_, inspected, _) = run(&["inspect", "--type", "image", "scry"]);
    let inspected: serde_json::Value = serde_json::from_str(&inspected).expect("it is JSON");
    let image = &inspected["OCIv1"]["config"];
    assert_eq!(image["User"], "65532:65532");
    assert_eq!(image["Entrypoint"], serde_json::json!(["/usr/bin/scry"]));
    assert_eq!(image["Cmd"][0], "agent");
    let (made, container, errors) = run(&["from", "scry"]);
    assert!(made, "{errors}");
    let container = container.trim();
    let inside = |command: &[&str]| {
        let start = [
            "run",
            "--isolation",
            "chroot",
            container,
            "--",
            "/usr/bin/scry",
        ];
        run(&[&start, command].concat())
    };
    let (ran, said, errors) = inside(&["--version"]);
    assert!(ran && said.starts_with("scry "), "{said}{errors}");
    let (ran, said, errors) = inside(&["validate", "/etc/scry/scry.toml"]);
    assert!(ran, "{said}{errors}");
    // It is not root there: what root may write it may not.
    let (ran, _, errors) = inside(&["man", "/usr/share/man"]);
    assert!(!ran, "{errors}");
}
