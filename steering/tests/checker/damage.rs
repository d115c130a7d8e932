//! Paths and traces from outside: whatever the bytes are, reading them ends with a value or an error, within bounds.

use proptest::prelude::*;
use randtree::{RandTree, scenarios};
use scry::checker::path::{self, STEPS_MAX};
use scry::trace;
use scry_protocol::limit::{PATH_BYTES_MAX, TRACE_BYTES_MAX};

use crate::mutate::{Dice, damage};
use crate::pupil::{Pupil, Story, tell};
use crate::support::{job, run, scenario};

/// A real path and a real trace, of a service with every kind of event.
fn real() -> (Vec<u8>, Vec<u8>) {
    let start = scenario::<RandTree>("r1", &["update-sibling"], &scenarios::Options::default());
    let heard = run::<RandTree>(&job(&start, 1));
    let found = heard.found();
    let longest = found.iter().max_by_key(|found| found.path.len());
    let longest = longest.expect("the bug is found");
    (longest.path.clone(), longest.trace.clone())
}

/// Reads a path, and a path that can be read must be one that can be written.
fn read_path(bytes: &[u8]) -> bool {
    let Ok(steps) = path::read::<RandTree>(bytes) else {
        return false;
    };
    assert!(steps.len() <= STEPS_MAX);
    let again = path::write(&steps).expect("what was read can be written");
    let same = path::read::<RandTree>(&again).expect("what was written can be read");
    assert_eq!(same, steps);
    true
}

fn read_trace(bytes: &[u8]) -> bool {
    let Ok(read) = trace::read(bytes) else {
        return false;
    };
    // It is shown to people as it is, so that must not fail either.
    for render in [
        trace::text::render,
        trace::mermaid::render,
        trace::shiviz::render,
        trace::json::render,
    ] {
        render(&read);
    }
    true
}

#[test]
fn damaged_paths_and_traces_are_read_or_refused() {
    let (path, packed) = real();
    assert!(read_path(&path));
    assert!(read_trace(&packed));
    let json = trace::unpack(&packed).expect("a real one");
    let mut dice = Dice::new(0x5c27);
    let (mut paths, mut traces) = (0, 0);
    for _ in 0..20_000 {
        paths += u32::from(read_path(&damage(&mut dice, &path, &packed)));
    }
    for _ in 0..4_000 {
        read_trace(&damage(&mut dice, &packed, &path));
        // Inside the packing, where a damaged text is looked at.
        let inner = damage(&mut dice, &json, &path);
        traces += u32::from(read_trace(&repacked(inner)));
    }
    assert!(paths > 0, "some damage leaves a path");
    assert!(traces > 0, "some damage leaves a trace");
}

fn repacked(json: Vec<u8>) -> Vec<u8> {
    let packed = scry_protocol::compress::Packed::pack(json);
    rmp_serde::to_vec(&packed).expect("bytes can be written")
}

#[test]
fn lengths_that_lie_cost_nothing() {
    // Four billion events, bytes, letters and entries that are not there.
    for lie in [0xdd_u8, 0xc6, 0xdb, 0xdf] {
        let bytes = [lie, 0xff, 0xff, 0xff, 0xff, 0x00];
        assert!(path::read::<RandTree>(&bytes).is_err());
        assert!(trace::read(&bytes).is_err());
    }
}

#[test]
fn what_is_too_long_is_refused() {
    assert!(path::read::<RandTree>(&vec![0x90; PATH_BYTES_MAX + 1]).is_err());
    assert!(trace::read(&vec![0x90; TRACE_BYTES_MAX + 1]).is_err());
    let start = tell(Story::Timer);
    let (step, _) = start.successors().swap_remove(0);
    let many = vec![step; STEPS_MAX + 1];
    assert!(path::write::<Pupil>(&many).is_err());
    let bytes = rmp_serde::to_vec(&many).expect("plain values");
    assert!(bytes.len() <= PATH_BYTES_MAX, "short enough in bytes");
    assert!(path::read::<Pupil>(&bytes).is_err());
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        read_path(&bytes);
        read_trace(&bytes);
        read_trace(&repacked(bytes));
    }
}
