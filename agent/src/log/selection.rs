//! Which records somebody wants to see.

use scry_protocol::NodeId;
use scry_protocol::record::Timestamp;
use serde_json::Value;

/// What a record must be like. Of what is absent, anything.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// One of these kinds.
    pub kinds: Vec<String>,
    /// Of this node.
    pub node: Option<NodeId>,
    /// About this property.
    pub property: Option<String>,
    /// Not earlier than this.
    pub since: Option<Timestamp>,
}

impl Selection {
    /// Tells whether a line is wanted. One that cannot be read is, if everything is.
    pub fn wants(&self, line: &str) -> bool {
        let record: Value = serde_json::from_str(line).unwrap_or(Value::Null);
        let field = |name: &str| record.get(name).and_then(Value::as_str);
        let kind = self.kinds.is_empty()
            || field("kind").is_some_and(|kind| self.kinds.iter().any(|wanted| wanted == kind));
        let node = self
            .node
            .is_none_or(|wanted| field("node").and_then(|node| node.parse().ok()) == Some(wanted));
        let property = self
            .property
            .as_deref()
            .is_none_or(|wanted| field("property") == Some(wanted));
        let since = self.since.is_none_or(|since| {
            let time: Option<Timestamp> = field("time").and_then(|time| time.parse().ok());
            time.is_some_and(|time| time >= since)
        });
        kind && node && property && since
    }
}

/// Reads a moment, or how long before now it was: `2026-11-16T08:30:00Z`, `90s`, `10m`, `2h`, `3d`.
///
/// # Errors
///
/// When it is neither.
pub fn moment(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    if let Ok(moment) = text.parse() {
        return Ok(moment);
    }
    let wrong = || {
        format!(
            "`{text}` is neither a moment like 2026-11-16T08:30:00Z nor a duration like 90s, 10m, 2h or 3d"
        )
    };
    let unit = text.chars().last().ok_or_else(wrong)?;
    let unit_ms = match unit {
        's' => 1_000_u64,
        'm' => 60_000,
        'h' => 3_600_000,
        'd' => 86_400_000,
        _ => return Err(wrong()),
    };
    let number: u64 = text[..text.len() - 1].parse().map_err(|_| wrong())?;
    let ago_ms = number.saturating_mul(unit_ms);
    Ok(Timestamp::from_millis(
        now.as_millis().saturating_sub(ago_ms),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"time":"2026-11-16T08:30:45.067Z","node":"n1","kind":"violation","property":"one root"}"#;

    #[test]
    fn every_wish_must_be_met() {
        let check = |selection: Selection, expected| {
            assert_eq!(selection.wants(LINE), expected, "{selection:?}")
        };
        let any = Selection::default;
        check(any(), true);
        check(
            Selection {
                kinds: vec!["run".to_owned(), "violation".to_owned()],
                ..any()
            },
            true,
        );
        check(
            Selection {
                kinds: vec!["run".to_owned()],
                ..any()
            },
            false,
        );
        check(
            Selection {
                node: Some(NodeId::new(1)),
                ..any()
            },
            true,
        );
        check(
            Selection {
                node: Some(NodeId::new(2)),
                ..any()
            },
            false,
        );
        check(
            Selection {
                property: Some("one root".to_owned()),
                ..any()
            },
            true,
        );
        check(
            Selection {
                property: Some("one".to_owned()),
                ..any()
            },
            false,
        );
        check(
            Selection {
                since: "2026-11-16T08:30:45.067Z".parse().ok(),
                ..any()
            },
            true,
        );
        check(
            Selection {
                since: "2026-11-16T08:30:45.068Z".parse().ok(),
                ..any()
            },
            false,
        );
        assert!(any().wants("torn"));
        assert!(
            !Selection {
                node: Some(NodeId::new(1)),
                ..any()
            }
            .wants("torn")
        );
    }

    #[test]
    fn moments_and_durations_are_read() {
        let now = Timestamp::from_millis(100_000_000);
        assert_eq!(moment("10m", now), Ok(Timestamp::from_millis(99_400_000)));
        assert_eq!(moment("9d", now), Ok(Timestamp::from_millis(0)));
        assert_eq!(
            moment("1970-01-01T00:00:01Z", now),
            Ok(Timestamp::from_millis(1_000))
        );
        for text in ["", "m", "10", "10y", "-1h", "1é"] {
            assert!(moment(text, now).is_err(), "{text}");
        }
    }
}
