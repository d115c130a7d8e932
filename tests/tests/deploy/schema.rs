//! What the API of Kubernetes allows, as its project publishes it: `schemas/` has the oldest version that knows native
//! sidecars and the newest there is. `schemas/trim.py` says where they come from.

use serde_json::{Value, json};

use crate::text;

/// The versions that manifests must fit.
const VERSIONS: [&str; 2] = ["1.29", "1.37"];

/// Lists what is wrong with an object, by version.
pub(crate) fn check(object: &Value) -> Vec<String> {
    let checked = VERSIONS.map(|version| check_version(version, object));
    checked.concat()
}

fn check_version(version: &str, object: &Value) -> Vec<String> {
    let published = text(&format!("tests/tests/deploy/schemas/{version}.json"));
    let published: Value = serde_json::from_str(&published).expect("a schema is JSON");
    let kind = object["kind"].as_str().unwrap_or_default();
    let Some(name) = published["kinds"][kind].as_str() else {
        return vec![format!("{kind:?} is not a kind that is used here")];
    };
    // The published schemas let these two be anything; an object without its version is of no kind.
    let expect = &published["definitions"][name]["properties"]["apiVersion"]["enum"];
    if expect
        .as_array()
        .is_none_or(|all| !all.contains(&object["apiVersion"]))
    {
        return vec![format!(
            "{version}: {kind} is not of {}",
            object["apiVersion"]
        )];
    }
    let schema = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$ref": format!("#/definitions/{name}"),
        "definitions": published["definitions"],
    });
    let validator = jsonschema::validator_for(&schema).expect("a published schema is one");
    validator
        .iter_errors(object)
        .map(|error| format!("{version}: {}: {error}", error.instance_path()))
        .collect()
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

#[test]
fn the_schemas_refuse_what_the_api_would() {
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": { "name": "a" },
        "spec": { "ports": [{ "port": 7700, "protocol": "UDP" }] },
    });
    assert_eq!(check(&service), [""; 0]);
    for (place, value) in [
        ("/spec/ports/0/port", json!("7700")),
        ("/spec/ports/0", json!({ "protocol": "UDP" })),
        ("/spec/ports/0", json!({ "port": 7700, "protcol": "UDP" })),
        ("/metadata", json!("a")),
        ("/apiVersion", json!("v2")),
        ("/kind", json!("Servcie")),
    ] {
        let mut wrong = service.clone();
        *wrong.pointer_mut(place).expect("the place is there") = value;
        let said = check(&wrong);
        assert_eq!(said.len(), VERSIONS.len(), "{place}: {said:?}");
    }
}
