//! Trace files: JSON as people and other programs read it.

use super::{Trace, VERSION};

/// Why a text is not a trace.
#[derive(Debug, thiserror::Error)]
pub enum ParseTraceError {
    /// It is not JSON, or not that of a trace.
    #[error("it is not a trace: {0}")]
    Malformed(#[from] serde_json::Error),
    /// It was written by a later version.
    #[error("it is of version {0}, and only versions up to {VERSION} are known here")]
    Version(u32),
    /// A step claims to be caused by one that does not come before it.
    #[error("step {step} is said to be caused by step {cause}, which does not come before it")]
    Cause {
        /// The step, counting from 1.
        step: usize,
        /// Its cause, counting from 1.
        cause: usize,
    },
}

/// Reads a trace. The bytes may come from anywhere.
///
/// # Errors
///
/// When they are something else.
pub fn parse(bytes: &[u8]) -> Result<Trace, ParseTraceError> {
    #[derive(serde::Deserialize)]
    struct Version {
        version: u32,
    }
    // Of a later version nothing but this is known.
    let Version { version } = serde_json::from_slice(bytes)?;
    if version > VERSION {
        return Err(ParseTraceError::Version(version));
    }
    let trace: Trace = serde_json::from_slice(bytes)?;
    for (at, step) in trace.steps.iter().enumerate() {
        if let Some(cause) = step.sent_by.filter(|&cause| cause >= at) {
            return Err(ParseTraceError::Cause {
                step: at + 1,
                cause: cause.saturating_add(1),
            });
        }
    }
    Ok(trace)
}

/// Writes a trace, indented.
pub fn render(trace: &Trace) -> String {
    let mut out = serde_json::to_string_pretty(trace).expect("a trace has text keys only");
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_trace_is_refused_with_its_reason() {
        let check = |text: &str, said: &str| {
            let error = parse(text.as_bytes()).expect_err("no trace").to_string();
            assert!(error.contains(said), "{text}: {error}");
        };
        check("", "not a trace");
        check("{\"version\":1}", "missing field");
        check("{\"version\":9,\"new\":true}", "of version 9");
        let step = r#"{"node":1,"kind":"message","from":2,"sent_by":0,"label":"x","picks":[],"sends":[],"state":null}"#;
        let looped = format!(
            r#"{{"version":1,"property":"p","explanation":"","by":1,"start":{{}},"steps":[{step}],"remedies":[]}}"#
        );
        check(&looped, "step 1 is said to be caused by step 1");
    }
}
