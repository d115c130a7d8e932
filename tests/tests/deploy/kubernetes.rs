//! The Kubernetes manifests: what the API allows, and the rules of a sidecar that never holds its service up.

use std::process::Command;

use scry_tests::{files, root};
use serde_json::{Value, json};

use crate::schema::{amount, check};
use crate::{program, text};

const STATEFUL_SET: &str = "deploy/kubernetes/base/statefulset.yaml";

pub(crate) fn yaml(path: &str) -> Value {
    parse(&text(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

pub(crate) fn parse(source: &str) -> Result<Value, String> {
    serde_saphyr::from_str(source).map_err(|error| error.to_string())
}

fn configuration() -> toml::Table {
    let source = text("deploy/kubernetes/base/scry.toml");
    source.parse().expect("the configuration is TOML")
}

/// A setting of the pods' configuration: what is not in it has the value of the sample.
fn setting(section: &str, key: &str) -> toml::Value {
    let sample: toml::Table = text("deploy/scry.toml")
        .parse()
        .expect("the sample is TOML");
    let own = configuration();
    let own = own.get(section).and_then(|values| values.get(key)).cloned();
    own.unwrap_or_else(|| sample[section][key].clone())
}

pub(crate) fn pod(object: &Value) -> &Value {
    &object["spec"]["template"]["spec"]
}

pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn named<'a>(values: &'a Value, name: &str) -> Option<&'a Value> {
    list(values).iter().find(|value| value["name"] == name)
}

fn has_word(values: &Value, word: &str) -> bool {
    list(values).iter().any(|value| value == word)
}

/// Lists what is wrong with a pod that shall have an agent beside its service.
pub(crate) fn sidecar_mistakes(pod: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut demand = |holds: bool, what: &str| {
        if !holds {
            wrong.push(what.to_owned());
        }
    };
    let Some(agent) = named(&pod["initContainers"], "scry-agent") else {
        return vec!["there is no agent among the init containers".to_owned()];
    };
    demand(
        agent["restartPolicy"] == "Always",
        "an init container without restartPolicy Always must end before the service starts",
    );
    demand(
        agent.get("startupProbe").is_none() && agent.get("readinessProbe").is_none(),
        "readiness of the agent holds the service up",
    );
    let alive = &agent["livenessProbe"]["exec"]["command"];
    demand(has_word(alive, "livez"), "the liveness probe asks /livez");
    demand(
        setting("admin", "listen")
            .as_str()
            .is_some_and(|listen| has_word(alive, listen)),
        "the liveness probe asks where the agent listens",
    );
    let common = &pod["securityContext"];
    demand(
        common["runAsNonRoot"] == true && common["runAsUser"].as_i64().is_some_and(|id| id > 0),
        "somebody is root",
    );
    let socket = setting("host", "socket");
    let folder = socket
        .as_str()
        .and_then(|path| path.rsplit_once('/'))
        .map_or("", |(folder, _)| folder);
    for container in list(&pod["containers"])
        .iter()
        .chain(list(&pod["initContainers"]))
    {
        let name = container["name"].as_str().unwrap_or_default();
        let mut demand = |holds: bool, what: &str| demand(holds, &format!("{name}: {what}"));
        let own = &container["securityContext"];
        demand(
            own["allowPrivilegeEscalation"] == false,
            "privileges may grow",
        );
        demand(own["readOnlyRootFilesystem"] == true, "files may change");
        demand(
            own["capabilities"]["drop"] == json!(["ALL"])
                && own["capabilities"].get("add").is_none(),
            "capabilities are left",
        );
        demand(
            own.get("runAsUser").is_none(),
            "agent and service are different users",
        );
        demand(
            name == "scry-agent" || container.get("restartPolicy").is_none(),
            "only the agent has a restart policy of its own",
        );
        for mount in list(&container["volumeMounts"]) {
            let volume = mount["name"].as_str().unwrap_or_default();
            demand(
                named(&pod["volumes"], volume).is_some(),
                &format!("there is no volume {volume}"),
            );
        }
        let shared = list(&container["volumeMounts"])
            .iter()
            .find(|mount| mount["mountPath"] == folder)
            .and_then(|mount| named(&pod["volumes"], mount["name"].as_str()?));
        demand(
            shared.is_some_and(|volume| volume.get("emptyDir").is_some()),
            "the folder of the socket is not shared",
        );
    }
    // Agent and service must see one file under one path, or it switches only one of them off.
    for key in ["kill_file", "switch_file"] {
        let file = setting("steering", key);
        let folder = file.as_str().and_then(|path| path.rsplit_once('/'));
        let folder = folder.map_or("", |(folder, _)| folder);
        let volume = |container: &Value| {
            let mounts = list(&container["volumeMounts"]);
            let mount = mounts.iter().find(|mount| mount["mountPath"] == folder)?;
            mount["name"].as_str().map(str::to_owned)
        };
        let at_agent = volume(agent);
        let everywhere = list(&pod["containers"])
            .iter()
            .all(|container| volume(container) == at_agent);
        demand(
            at_agent.is_some() && everywhere,
            &format!("steering.{key} is not the same file in all containers"),
        );
    }
    let limit = agent["resources"]["limits"]["memory"].as_str();
    let checker = setting("checker", "memory_bytes").as_integer();
    demand(
        limit.and_then(amount) > checker.map(|bytes| bytes as u64),
        "the checker may use more memory than its container has",
    );
    wrong
}

#[test]
fn every_manifest_is_what_the_api_allows() {
    let all = files(&root().join("deploy/kubernetes"));
    let manifests: Vec<_> = all
        .iter()
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "yaml")
        })
        // A patch is part of an object; it is checked where it is put in. What Kustomize reads is no object.
        .filter(|path| !path.ends_with("readiness.yaml") && !path.ends_with("kustomization.yaml"))
        .collect();
    assert!(manifests.len() >= 3);
    for path in manifests {
        let source = std::fs::read_to_string(path).expect("manifests are text");
        let object = parse(&source).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_eq!(check(&object), [""; 0], "{}", path.display());
    }
}

#[test]
fn the_agent_is_a_sidecar_that_never_holds_its_service_up() {
    assert_eq!(sidecar_mistakes(pod(&yaml(STATEFUL_SET))), [""; 0]);
}

#[test]
fn mistakes_in_a_manifest_are_seen() {
    let right = yaml(STATEFUL_SET);
    let agent = "/spec/template/spec/initContainers/0";
    let service = "/spec/template/spec/containers/0";
    for (place, key, value) in [
        (agent, "restartPolicy", json!(["Always"])),
        (agent, "livenesProbe", json!({})),
        (agent, "volumeMounts", json!([{ "name": "scry-run" }])),
        ("/spec", "replicas", json!("3")),
        ("/spec/template/spec/volumes/0", "emptyDir", json!([])),
    ] {
        let mut wrong = right.clone();
        let object = wrong.pointer_mut(place).expect("the place is there");
        object[key] = value;
        assert_ne!(check(&wrong), [""; 0], "{place} {key}");
    }
    let set = |place: &str, value: Value| {
        let mut wrong = right.clone();
        *wrong.pointer_mut(place).expect("the place is there") = value;
        assert_ne!(sidecar_mistakes(pod(&wrong)), [""; 0], "{place}");
    };
    set(&format!("{agent}/restartPolicy"), Value::Null);
    set(&format!("{agent}/name"), json!("other"));
    set(
        &format!("{agent}/livenessProbe/exec/command/2"),
        json!("readyz"),
    );
    set(
        &format!("{agent}/securityContext/capabilities/drop"),
        json!([]),
    );
    set(&format!("{agent}/resources/limits/memory"), json!("512Mi"));
    set(
        &format!("{service}/volumeMounts/0/mountPath"),
        json!("/run/other"),
    );
    set(&format!("{service}/volumeMounts/1/name"), json!("scry-log"));
    set("/spec/template/spec/securityContext/runAsUser", json!(0));
    set("/spec/template/spec/volumes/0/name", json!("other"));
    let mut gated = right.clone();
    gated.pointer_mut(agent).expect("the agent is there")["readinessProbe"] = json!({});
    assert_ne!(sidecar_mistakes(pod(&gated)), [""; 0]);
}

#[test]
fn nodes_peers_and_certificates_belong_together() {
    let object = yaml(STATEFUL_SET);
    let replicas = object["spec"]["replicas"].as_u64().expect("a number");
    let service = object["spec"]["serviceName"].as_str().expect("a name");
    let name = object["metadata"]["name"].as_str().expect("a name");
    let listen = setting("peers", "listen");
    let port = listen
        .as_str()
        .and_then(|listen| listen.rsplit_once(':'))
        .map_or("", |(_, port)| port)
        .to_owned();
    let known = configuration()["peers"]["known"].clone();
    let known = known.as_array().expect("a list").clone();
    assert_eq!(known.len() as u64, replicas);
    let items =
        named(&pod(&object)["volumes"], "scry-certificates").expect("a volume")["secret"]["items"]
            .clone();
    for (node, peer) in known.iter().enumerate() {
        assert_eq!(peer["id"].as_integer(), Some(node as i64));
        let address = format!("{name}-{node}.{service}:{port}");
        assert_eq!(peer["address"].as_str(), Some(address.as_str()));
        // As `scry cert init` names the files, and as scry.toml looks for them.
        for (key, file) in [
            ("authority.pem".to_owned(), "authority"),
            (format!("n{node}.pem"), "certificate"),
            (format!("n{node}.key"), "key"),
        ] {
            let path = setting("peers", file);
            let path = path.as_str().expect("a path is text");
            let below = path
                .strip_prefix("/etc/scry-certificate/")
                .expect("certificates are where the volume is mounted");
            let item = json!({ "key": key, "path": format!("{node}/{below}") });
            assert!(list(&items).contains(&item), "{item}");
        }
    }
    let services = yaml("deploy/kubernetes/base/service.yaml");
    assert_eq!(services["metadata"]["name"], service);
    let peers = named(&services["spec"]["ports"], "scry-peers").expect("a port");
    assert_eq!(
        (&peers["port"].to_string(), &peers["protocol"]),
        (&port, &json!("UDP"))
    );
    let agent = named(&pod(&object)["initContainers"], "scry-agent").expect("an agent");
    assert_eq!(agent["ports"][0]["containerPort"].to_string(), port);
}

#[test]
fn the_component_gates_on_readyz_and_changes_nothing_else() {
    let patch = yaml("deploy/kubernetes/components/gate-on-agent/readiness.yaml");
    let containers = &pod(&patch)["initContainers"];
    let [agent] = list(containers) else {
        panic!("the patch is about one container");
    };
    let keys: Vec<_> = agent.as_object().expect("an object").keys().collect();
    assert_eq!(keys, ["name", "readinessProbe"]);
    assert_eq!(agent["name"], "scry-agent");
    assert!(has_word(
        &agent["readinessProbe"]["exec"]["command"],
        "readyz"
    ));
    let mut whole = yaml(STATEFUL_SET);
    let place = whole
        .pointer_mut("/spec/template/spec/initContainers/0")
        .expect("the agent is there");
    place["readinessProbe"] = agent["readinessProbe"].clone();
    assert_eq!(check(&whole), [""; 0]);
}

#[test]
fn what_kustomize_reads_names_files_that_exist() {
    for (folder, kind) in [
        ("deploy/kubernetes/base", "Kustomization"),
        ("deploy/kubernetes/components/gate-on-agent", "Component"),
    ] {
        let file = yaml(&format!("{folder}/kustomization.yaml"));
        assert_eq!(file["kind"], kind);
        let keys = file.as_object().expect("an object").keys();
        for key in keys {
            let known = [
                "apiVersion",
                "kind",
                "resources",
                "configMapGenerator",
                "labels",
            ];
            let known = known.iter().chain(&["images", "patches"]);
            assert!(known.into_iter().any(|known| known == key), "{key}");
        }
        let generated = list(&file["configMapGenerator"]).iter();
        let patches = list(&file["patches"]).iter();
        let named = list(&file["resources"])
            .iter()
            .chain(generated.flat_map(|map| list(&map["files"])))
            .chain(patches.map(|patch| &patch["path"]));
        let mut count = 0;
        for name in named {
            let path = root().join(folder).join(name.as_str().expect("a name"));
            assert!(path.is_file(), "{}", path.display());
            count += 1;
        }
        assert!(count > 0);
    }
}

#[test]
fn the_port_for_metrics_is_the_one_the_agent_listens_on() {
    let object = yaml(STATEFUL_SET);
    let agent = named(&pod(&object)["initContainers"], "scry-agent").expect("an agent");
    let port = &named(&agent["ports"], "scry-metrics").expect("a port")["containerPort"];
    let listen = setting("admin", "metrics_listen");
    assert_eq!(listen.as_str(), Some(format!("0.0.0.0:{port}").as_str()));
    let annotations = &object["spec"]["template"]["metadata"]["annotations"];
    assert_eq!(annotations["prometheus.io/port"], port.to_string());
    let policy = yaml("deploy/kubernetes/base/network-policy.yaml");
    let rules = list(&policy["spec"]["ingress"]).iter();
    let open: Vec<_> = rules
        .filter(|rule| {
            list(&rule["ports"])
                .iter()
                .any(|open| open["port"] == *port)
        })
        .collect();
    assert_eq!(open.len(), 1);
    assert!(open[0].get("from").is_some(), "not for everybody");
}

#[test]
fn kustomize_can_build_the_base() {
    let Some(kubectl) = program("kubectl") else {
        return;
    };
    let output = Command::new(kubectl)
        .arg("kustomize")
        .arg(root().join("deploy/kubernetes/base"))
        .output()
        .expect("kubectl can be started");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let built = String::from_utf8_lossy(&output.stdout).into_owned();
    let objects: Vec<Value> = built
        .split("\n---\n")
        .map(|part| parse(part).expect("kustomize writes YAML"))
        .collect();
    for object in &objects {
        assert_eq!(check(object), [""; 0]);
    }
    let set = objects
        .iter()
        .find(|object| object["kind"] == "StatefulSet")
        .expect("the nodes are there");
    assert_eq!(sidecar_mistakes(pod(set)), [""; 0]);
}
