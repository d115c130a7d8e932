//! What the API of Kubernetes allows in the kinds of objects we use: which keys, of which types, and which must be there.
//!
//! Written down from the API's reference for what `deploy/kubernetes` has need of, and no more: a key that is not here is
//! refused, so that a misspelt one cannot pass.

use serde_json::Value;

/// What a value may be.
pub(crate) enum Shape {
    /// Any text.
    Text,
    /// A name as DNS has them.
    Name,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A whole number in this range.
    Number(i64, i64),
    /// True or false.
    Flag,
    /// An amount of processor time or memory.
    Quantity,
    /// Any number of these.
    List(&'static Shape),
    /// Keys of the author's choice.
    Map(&'static Shape),
    /// These keys; those with `true` must be there.
    Object(&'static [(&'static str, bool, &'static Shape)]),
}

use Shape::{Flag, List, Map, Name, Number, Object, Quantity, Text, Word};

const PORT: Shape = Number(1, 65535);
const SECONDS: Shape = Number(1, 3600);
const LABELS: Shape = Map(&Text);
const SELECTOR: Shape = Object(&[("matchLabels", true, &LABELS)]);
const PROTOCOL: Shape = Word(&["TCP", "UDP", "SCTP"]);
const USER: Shape = Number(0, i32::MAX as i64);

const METADATA: Shape = Object(&[
    ("name", false, &Name),
    ("namespace", false, &Name),
    ("labels", false, &LABELS),
    ("annotations", false, &LABELS),
]);

const PROBE: Shape = Object(&[
    ("exec", true, &Object(&[("command", true, &List(&Text))])),
    ("initialDelaySeconds", false, &Number(0, 3600)),
    ("periodSeconds", false, &SECONDS),
    ("timeoutSeconds", false, &SECONDS),
    ("failureThreshold", false, &Number(1, 100)),
]);

const AMOUNTS: Shape = Object(&[("cpu", false, &Quantity), ("memory", false, &Quantity)]);

const CONTAINER: Shape = Object(&[
    ("name", true, &Name),
    ("image", true, &Text),
    ("restartPolicy", false, &Word(&["Always"])),
    ("command", false, &List(&Text)),
    ("args", false, &List(&Text)),
    ("env", false, &List(&VARIABLE)),
    (
        "ports",
        false,
        &List(&Object(&[
            ("name", false, &Name),
            ("containerPort", true, &PORT),
            ("protocol", false, &PROTOCOL),
        ])),
    ),
    ("livenessProbe", false, &PROBE),
    ("readinessProbe", false, &PROBE),
    ("startupProbe", false, &PROBE),
    (
        "resources",
        false,
        &Object(&[("requests", false, &AMOUNTS), ("limits", false, &AMOUNTS)]),
    ),
    (
        "securityContext",
        false,
        &Object(&[
            ("allowPrivilegeEscalation", false, &Flag),
            ("readOnlyRootFilesystem", false, &Flag),
            ("runAsNonRoot", false, &Flag),
            ("runAsUser", false, &USER),
            (
                "capabilities",
                false,
                &Object(&[("drop", false, &List(&Text)), ("add", false, &List(&Text))]),
            ),
        ]),
    ),
    (
        "volumeMounts",
        false,
        &List(&Object(&[
            ("name", true, &Name),
            ("mountPath", true, &Text),
            ("subPathExpr", false, &Text),
            ("readOnly", false, &Flag),
        ])),
    ),
]);

const VARIABLE: Shape = Object(&[
    ("name", true, &Text),
    ("value", false, &Text),
    (
        "valueFrom",
        false,
        &Object(&[("fieldRef", true, &Object(&[("fieldPath", true, &Text)]))]),
    ),
]);

const VOLUME: Shape = Object(&[
    ("name", true, &Name),
    (
        "emptyDir",
        false,
        &Object(&[
            ("medium", false, &Word(&["", "Memory"])),
            ("sizeLimit", false, &Quantity),
        ]),
    ),
    ("configMap", false, &Object(&[("name", true, &Name)])),
    (
        "secret",
        false,
        &Object(&[
            ("secretName", true, &Name),
            ("defaultMode", false, &Number(0, 0o777)),
            (
                "items",
                false,
                &List(&Object(&[("key", true, &Text), ("path", true, &Text)])),
            ),
        ]),
    ),
]);

const POD: Shape = Object(&[
    ("initContainers", false, &List(&CONTAINER)),
    ("containers", true, &List(&CONTAINER)),
    ("volumes", false, &List(&VOLUME)),
    ("shareProcessNamespace", false, &Flag),
    ("automountServiceAccountToken", false, &Flag),
    ("terminationGracePeriodSeconds", false, &Number(0, 3600)),
    (
        "securityContext",
        false,
        &Object(&[
            ("runAsNonRoot", false, &Flag),
            ("runAsUser", false, &USER),
            ("runAsGroup", false, &USER),
            ("fsGroup", false, &USER),
            (
                "seccompProfile",
                false,
                &Object(&[("type", true, &Word(&["RuntimeDefault", "Unconfined"]))]),
            ),
        ]),
    ),
]);

const STATEFUL_SET: Shape = Object(&[
    ("serviceName", true, &Name),
    ("replicas", false, &Number(0, 1000)),
    (
        "podManagementPolicy",
        false,
        &Word(&["OrderedReady", "Parallel"]),
    ),
    ("selector", true, &SELECTOR),
    (
        "template",
        true,
        &Object(&[("metadata", true, &METADATA), ("spec", true, &POD)]),
    ),
]);

const SERVICE: Shape = Object(&[
    ("clusterIP", false, &Text),
    ("publishNotReadyAddresses", false, &Flag),
    ("selector", false, &LABELS),
    (
        "ports",
        true,
        &List(&Object(&[
            ("name", true, &Name),
            ("port", true, &PORT),
            ("protocol", false, &PROTOCOL),
        ])),
    ),
]);

const NETWORK_POLICY: Shape = Object(&[
    ("podSelector", true, &SELECTOR),
    ("policyTypes", false, &List(&Word(&["Ingress", "Egress"]))),
    (
        "ingress",
        false,
        &List(&Object(&[
            (
                "from",
                false,
                &List(&Object(&[("podSelector", true, &SELECTOR)])),
            ),
            (
                "ports",
                false,
                &List(&Object(&[
                    ("port", true, &PORT),
                    ("protocol", false, &PROTOCOL),
                ])),
            ),
        ])),
    ),
]);

const GENERATED: Shape = List(&Object(&[
    ("name", true, &Name),
    ("files", true, &List(&Text)),
]));

/// Whole objects by version and kind, with what they hold beside both.
const KINDS: &[(&str, &str, Shape)] = &[
    (
        "apps/v1",
        "StatefulSet",
        Object(&[("metadata", true, &METADATA), ("spec", true, &STATEFUL_SET)]),
    ),
    (
        "v1",
        "Service",
        Object(&[("metadata", true, &METADATA), ("spec", true, &SERVICE)]),
    ),
    (
        "networking.k8s.io/v1",
        "NetworkPolicy",
        Object(&[
            ("metadata", true, &METADATA),
            ("spec", true, &NETWORK_POLICY),
        ]),
    ),
    (
        "v1",
        "ConfigMap",
        Object(&[("metadata", true, &METADATA), ("data", true, &LABELS)]),
    ),
    (
        "kustomize.config.k8s.io/v1beta1",
        "Kustomization",
        Object(&[
            ("resources", true, &List(&Text)),
            ("components", false, &List(&Text)),
            ("configMapGenerator", false, &GENERATED),
            (
                "labels",
                false,
                &List(&Object(&[
                    ("pairs", true, &LABELS),
                    ("includeSelectors", false, &Flag),
                ])),
            ),
            (
                "images",
                false,
                &List(&Object(&[
                    ("name", true, &Text),
                    ("newName", false, &Text),
                    ("newTag", false, &Text),
                ])),
            ),
        ]),
    ),
    (
        "kustomize.config.k8s.io/v1alpha1",
        "Component",
        Object(&[(
            "patches",
            true,
            &List(&Object(&[
                ("path", true, &Text),
                (
                    "target",
                    true,
                    &Object(&[("kind", true, &Text), ("name", true, &Name)]),
                ),
            ])),
        )]),
    ),
];

/// Lists all that is wrong with an object, each with its path.
pub(crate) fn check(object: &Value) -> Vec<String> {
    let word = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
    let (version, kind) = (word("apiVersion"), word("kind"));
    let Some((_, _, shape)) = KINDS
        .iter()
        .find(|known| (known.0, known.1) == (version, kind))
    else {
        return vec![format!("{version} {kind}: not a kind that is used here")];
    };
    let mut rest = object.clone();
    if let Some(keys) = rest.as_object_mut() {
        keys.remove("apiVersion");
        keys.remove("kind");
    }
    let mut wrong = Vec::new();
    compare(kind, &rest, shape, &mut wrong);
    wrong
}

fn compare(path: &str, value: &Value, shape: &Shape, wrong: &mut Vec<String>) {
    let fits = match shape {
        Text => value.is_string(),
        Name => value.as_str().is_some_and(is_name),
        Word(words) => value.as_str().is_some_and(|word| words.contains(&word)),
        Number(least, most) => value
            .as_i64()
            .is_some_and(|number| (*least..=*most).contains(&number)),
        Flag => value.is_boolean(),
        Quantity => value.as_str().is_some_and(|text| amount(text).is_some()),
        List(_) => value.is_array(),
        Map(_) | Object(_) => value.is_object(),
    };
    if !fits {
        wrong.push(format!("{path}: {value}"));
        return;
    }
    match (shape, value) {
        (List(each), Value::Array(values)) => {
            for (at, value) in values.iter().enumerate() {
                compare(&format!("{path}[{at}]"), value, each, wrong);
            }
        }
        (Map(each), Value::Object(values)) => {
            for (key, value) in values {
                compare(&format!("{path}.{key}"), value, each, wrong);
            }
        }
        (Object(keys), Value::Object(values)) => {
            for (key, value) in values {
                let path = format!("{path}.{key}");
                match keys.iter().find(|(known, ..)| known == key) {
                    Some((_, _, shape)) => compare(&path, value, shape, wrong),
                    None => wrong.push(format!("{path}: unknown key")),
                }
            }
            for (key, required, _) in *keys {
                if *required && !values.contains_key(*key) {
                    wrong.push(format!("{path}.{key}: missing"));
                }
            }
        }
        _ => {}
    }
}

fn is_name(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&text.len())
        && text.bytes().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// Reads an amount, of bytes or of thousandths of a processor.
pub(crate) fn amount(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let number: u64 = digits.parse().ok()?;
    let scale = match &text[digits.len()..] {
        "m" | "" => 1,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(scale)
}
