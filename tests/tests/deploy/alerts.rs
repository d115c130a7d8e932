//! The alert rules: such as Prometheus reads, and each with a row for the operator. That every metric in them exists is held
//! by the agent's own tests, which have an agent to ask.

use std::collections::BTreeSet;

use crate::kubernetes::{list, yaml};
use crate::text;

#[test]
fn every_alert_is_a_rule_and_has_a_row_for_the_operator() {
    let file = yaml("deploy/prometheus/alerts.yaml");
    let keys = |value: &serde_json::Value| -> Vec<String> {
        let object = value.as_object().expect("an object");
        object.keys().cloned().collect()
    };
    assert_eq!(keys(&file), ["groups"]);
    let page = text("docs/operating.md");
    let mut names = BTreeSet::new();
    for group in list(&file["groups"]) {
        assert_eq!(keys(group), ["name", "rules"]);
        for rule in list(&group["rules"]) {
            let name = rule["alert"].as_str().expect("an alert has a name");
            for key in keys(rule) {
                let known = ["alert", "expr", "for", "labels", "annotations"];
                assert!(known.contains(&key.as_str()), "{name}: {key}");
            }
            assert!(names.insert(name.to_owned()), "{name} is there twice");
            let expression = rule["expr"].as_str().unwrap_or_default();
            let depth = expression.chars().try_fold(0_i32, |depth, letter| {
                let depth = depth + i32::from(letter == '(') - i32::from(letter == ')');
                (depth >= 0).then_some(depth)
            });
            assert_eq!(depth, Some(0), "{name}: {expression}");
            let compared = [" > ", " == ", " < "];
            assert!(compared.iter().any(|by| expression.contains(by)), "{name}");
            let severity = rule["labels"]["severity"].as_str();
            assert!(matches!(severity, Some("critical" | "warning")), "{name}");
            assert!(rule["annotations"]["summary"].is_string(), "{name}");
            assert!(page.contains(&format!("| `{name}` |")), "{name} has no row");
        }
    }
    assert!(names.len() > 10, "{names:?}");
    let rows = page.matches("\n| `Scry").count();
    assert_eq!(rows, names.len(), "a row is of an alert that is gone");
}
