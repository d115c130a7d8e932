//! A mutational fuzzer for every decoder of the protocol.
//!
//! Valid messages are made at random, encoded, and damaged; the header is mended now and then so that the damage reaches
//! the inner decoders. No input may panic, take more memory than a small multiple of its own length, or decode to
//! something that does not encode to itself again. Every valid message must read back.
//!
//! `cargo test -p scry-protocol --test fuzz` runs a fixed number of inputs per decoder. `SCRY_FUZZ_SECONDS=600` runs each
//! decoder that long, with seeds of its own choice; `SCRY_SEED` replays one. A failure prints the command.

#![expect(
    clippy::disallowed_types,
    reason = "a fuzzer that runs for a time, on inputs of its own choice, needs a clock"
)]

mod memory;
mod mutate;
mod sample;

use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mutate::{Dice, damage, mend};
use scry_protocol::channel::{Envelope, Succession};
use scry_protocol::compress::Packed;
use scry_protocol::delta::Delta;
use scry_protocol::frame::{self, Decoder, Message};
use scry_protocol::limit::BODY_BYTES_MAX;
use scry_protocol::link::checker::{AgentToChecker, CheckerToAgent};
use scry_protocol::link::host::{AgentToHost, HostToAgent};
use scry_protocol::link::peer::{Changed, PeerMessage, RequestId};
use scry_protocol::{Body, Content};

/// Inputs per decoder without `SCRY_FUZZ_SECONDS`.
const INPUTS: u64 = 50_000;
/// Inputs that one seed makes.
const BATCH: u64 = 1_000;
/// Memory that a decoder may take whatever its input: the text of an error, say.
const SLACK_BYTES: usize = 16 << 10;
/// Memory per byte of input. An element of a list can be many times larger than its shortest encoding, and a growing
/// list holds its old and new self for a moment.
const EXPANSION: usize = 100;

/// Runs one decoder over many inputs. `feed` makes one input from the dice and tries it.
fn fuzz(name: &str, feed: impl Fn(&mut Dice)) {
    let variable = |name: &str| {
        let text = std::env::var(name).ok()?;
        Some(
            text.parse::<u64>()
                .unwrap_or_else(|_| panic!("{name} is not a number: {text}")),
        )
    };
    let batch = |seed: u64| {
        let mut dice = Dice::new(seed);
        for input in 0..BATCH {
            catch_unwind(AssertUnwindSafe(|| feed(&mut dice))).unwrap_or_else(|_| {
                panic!(
                    "input {input} of seed {seed} fails; replay with:\n  SCRY_SEED={seed} cargo test -p scry-protocol \
                     --test fuzz {name} -- --exact"
                )
            });
        }
    };
    if let Some(seed) = variable("SCRY_SEED") {
        return batch(seed);
    }
    let Some(seconds) = variable("SCRY_FUZZ_SECONDS") else {
        return (0..INPUTS / BATCH).for_each(batch);
    };
    let end = Instant::now() + Duration::from_secs(seconds);
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let mut seed = now.map_or(0, |now| now.as_nanos() as u64);
    while Instant::now() < end {
        batch(seed);
        seed = seed.wrapping_add(1);
    }
}

/// Runs a decoder, and fails if it takes too much memory.
fn frugally<T>(input: &[u8], fixed_bytes: usize, decode: impl FnOnce() -> T) -> T {
    let (result, peak_bytes) = memory::measure(decode);
    let most = fixed_bytes + SLACK_BYTES + EXPANSION * input.len();
    assert!(
        peak_bytes <= most,
        "{peak_bytes} bytes for an input of {}: {input:02x?}",
        input.len()
    );
    result
}

fn link<M: Message + Clone + Debug + PartialEq>(dice: &mut Dice, sample: fn(&mut Dice) -> M) {
    let message = sample(dice);
    let whole = frame::encode(&message).expect("a sample is within the limits");
    assert_eq!(frame::decode_one::<M>(&whole).as_ref(), Ok(&message));

    let other = frame::encode(&sample(dice)).expect("a sample is within the limits");
    let mut input = damage(dice, &whole, &other);
    if dice.one_in(4) == 0 {
        mend(&mut input, frame::VERSION, whole[1]);
    }
    let decoded = frugally(&input, 0, || frame::decode::<M>(&input));
    if let Ok(Some((decoded, used))) = decoded {
        let again = frame::encode(&decoded).expect("what was read is within the limits");
        assert_eq!(frame::decode_one::<M>(&again), Ok(decoded));
        assert!(used <= input.len());
    }
    // The same bytes in pieces must come to the same end.
    let mut decoder = Decoder::default();
    let cut = dice.below(input.len() as u64 + 1) as usize;
    let mut pieces = Vec::new();
    let mut whole_again = Vec::new();
    for piece in [&input[..cut], &input[cut..]] {
        decoder.feed(piece);
        while let Ok(Some(message)) = decoder.poll::<M>() {
            pieces.push(message);
        }
    }
    let mut rest = input.as_slice();
    while let Ok(Some((message, used))) = frame::decode::<M>(rest) {
        whole_again.push(message);
        rest = &rest[used..];
    }
    assert_eq!(pieces, whole_again);
}

#[test]
fn host_to_agent() {
    fuzz("host_to_agent", |dice| {
        link::<HostToAgent>(dice, sample::host_to_agent)
    });
}

#[test]
fn agent_to_host() {
    fuzz("agent_to_host", |dice| {
        link::<AgentToHost>(dice, sample::agent_to_host)
    });
}

#[test]
fn peer() {
    fuzz("peer", |dice| link::<PeerMessage>(dice, sample::peer));
}

#[test]
fn agent_to_checker() {
    fuzz("agent_to_checker", |dice| {
        link::<AgentToChecker>(dice, sample::agent_to_checker)
    });
}

#[test]
fn checker_to_agent() {
    fuzz("checker_to_agent", |dice| {
        link::<CheckerToAgent>(dice, sample::checker_to_agent)
    });
}

#[test]
fn envelope() {
    fuzz("envelope", |dice| {
        let envelope = sample::envelope(dice);
        let mut bytes = Vec::new();
        envelope.write(&mut bytes);
        assert_eq!(Envelope::read(&bytes), Ok((envelope, &[][..])));
        let input = damage(dice, &bytes, &[0xff; 12]);
        if let Ok((read, rest)) = frugally(&input, 0, || Envelope::read(&input)) {
            let mut again = Vec::new();
            read.write(&mut again);
            assert_eq!(again, input[..input.len() - rest.len()]);
        }
    });
}

#[test]
fn succession() {
    fuzz("succession", |dice| {
        let (mut there, mut here) = (Succession::default(), Succession::default());
        for _ in 0..4 {
            let envelope = sample::envelope(dice);
            let mut bytes = Vec::new();
            there.write(&envelope, &mut bytes);
            assert_eq!(here.read(&bytes), Ok((envelope, &[][..])));
            let input = damage(dice, &bytes, &[0x14; 12]);
            let (mut reading, mut writing) = (here, here);
            if let Ok((read, rest)) = frugally(&input, 0, || reading.read(&input)) {
                let mut again = Vec::new();
                writing.write(&read, &mut again);
                assert!(
                    again.len() <= input.len() - rest.len(),
                    "the shortest form is written"
                );
            }
        }
    });
}

#[test]
fn content() {
    fuzz("content", |dice| {
        let content = sample::content(dice);
        let body = content.write().expect("a sample is within the limits");
        assert_eq!(body.read().expect("whole"), content);
        let other = sample::content(dice)
            .write()
            .expect("a sample is within the limits");
        let input = damage(dice, body.as_bytes(), other.as_bytes());
        let body = Body::from_bytes(input.clone()).expect("a sample is within the limits");
        if let Ok(read) = frugally(&input, 0, || body.read()) {
            let again: Content = read.write().expect("within").read().expect("whole");
            assert_eq!(again, read);
        }
    });
}

#[test]
fn delta() {
    fuzz("delta", |dice| {
        let base = dice.text_like(600);
        let target = damage(dice, &base, &dice.clone().text_like(300));
        let delta = Delta::between(&base, &target);
        let message = PeerMessage::from(Changed {
            id: RequestId::new(0),
            ahead: 0,
            age_ms: 0,
            delta: delta.clone(),
        });
        let whole = frame::encode(&message).expect("a sample is within the limits");
        assert_eq!(delta.apply(&base), Ok(target));
        let other = dice.bytes(40);
        let mut input = damage(dice, &whole, &other);
        mend(&mut input, frame::VERSION, whole[1]);
        let wrong = damage(dice, &base, &other);
        let Ok(PeerMessage::Changed(Changed { delta: damaged, .. })) = frame::decode_one(&input)
        else {
            return;
        };
        // A difference may lead to a checkpoint of any size, and unpack to as many operations again.
        let limit = 6 * BODY_BYTES_MAX;
        if let Ok(result) = frugally(&input, limit, || damaged.apply(&wrong)) {
            assert!(result.len() <= BODY_BYTES_MAX);
        }
    });
}

#[test]
fn packed() {
    fuzz("packed", |dice| {
        let bytes = dice.text_like(2_000);
        let packed = Packed::pack(bytes.clone());
        let encoded = rmp_serde::to_vec(&packed).expect("a sample is within the limits");
        assert_eq!(packed.unpack(bytes.len()), Ok(bytes));
        let other = dice.bytes(40);
        let input = damage(dice, &encoded, &other);
        let Ok(damaged) = rmp_serde::from_slice::<Packed>(&input) else {
            return;
        };
        let max = dice.below(10_000) as usize;
        if let Ok(result) = frugally(&input, max, || damaged.unpack(max)) {
            assert!(result.len() <= max);
        }
    });
}
