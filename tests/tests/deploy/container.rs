//! The container file: two stages, one binary, nobody is root.

use crate::text;

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
