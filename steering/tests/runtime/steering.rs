//! Filters, checkpoints, predictions and guards, through a real hook and its socket.

mod held;
mod kept;

use std::time::Duration;

use scry::NodeId;
use scry::capture;
use scry::hook;
use scry::model::event::Input;
use scry::model::live::{self, Performed};
use scry::runtime::guard::{Refusal, Scene};
use scry::runtime::{CallError, Examined, Guard, Handle, Kind, Options, Ruling};
use scry_protocol::filter::{Action, Matcher};
use scry_protocol::link::host::{
    AgentToHost, Checkpoint, HostToAgent, TakeCheckpoint, WithdrawFilters,
};
use scry_protocol::{CheckpointNumber, Content, FilterId};

use crate::agent::{Agent, Socket};
use crate::cluster::{ONE, TWO, call, heard, introduce, numbers, report, start, tell, until};
use crate::probe::{Alarm, Call, Probe, Way, Word};

struct Steered {
    one: Handle<Probe>,
    two: Handle<Probe>,
    /// The agent of the second.
    agent: Agent,
    _socket: Socket,
}

fn hooked(id: NodeId, socket: &Socket) -> Options<Probe> {
    let mut options = Options::new(id, ());
    let mut hook = hook::Options::new(id, "probe", "1");
    hook.socket = Some(socket.path.clone());
    options.hook = Some(hook);
    options
}

async fn steered() -> Steered {
    let socket = Socket::new();
    let one = start(Options::new(ONE, ()));
    let two = start(hooked(TWO, &socket));
    introduce(&[&one, &two]).await;
    let agent = socket.accept().await;
    Steered {
        one,
        two,
        agent,
        _socket: socket,
    }
}

fn words() -> Matcher {
    Matcher::Message {
        kind: "Tell".to_owned(),
        source: ONE,
        destination: TWO,
        content: None,
    }
}

/// Sends words until a filter acts on one: how soon an installed filter is in force is the hook's own business.
async fn provoke(steered: &Steered, by: Way, ruling: Ruling) {
    let mut reports = steered.two.watch().await.expect("it lives");
    loop {
        tell(&steered.one, TWO, by).await;
        let next = report(&mut reports, "a word", |report| {
            report.event.starts_with("Tell")
        })
        .await;
        if next.verdict == ruling {
            assert_eq!(next.filter, Some(FilterId::new(9)));
            return;
        }
        assert_eq!(next.verdict, Ruling::Run);
    }
}

#[tokio::test]
async fn a_filtered_message_never_reaches_its_handler() {
    let mut steered = steered().await;
    steered.agent.install(words(), Action::Drop).await;
    provoke(&steered, Way::Datagram, Ruling::Drop).await;
    provoke(&steered, Way::Stream, Ruling::Drop).await;
    let before = steered.two.state().await.expect("it lives").state;
    call(
        &steered.one,
        Call::Ask {
            to: TWO,
            by: Way::Stream,
        },
    )
    .await;
    let after = until(&steered.two, "a question", heard(before.heard.len() + 1)).await;
    assert_eq!(after.lost, []);
    steered
        .agent
        .wait("a hit", |message| {
            matches!(message, HostToAgent::FilterHit(_))
        })
        .await;
}

#[tokio::test]
async fn a_filter_that_resets_breaks_the_connection_at_both_ends() {
    let mut steered = steered().await;
    steered.agent.install(words(), Action::Reset).await;
    provoke(&steered, Way::Stream, Ruling::Reset).await;
    until(&steered.one, "the loss", |probe| probe.lost == [TWO]).await;
    until(&steered.two, "the loss", |probe| probe.lost == [ONE]).await;
}

#[tokio::test]
async fn held_messages_come_in_order_when_the_filter_ends() {
    let mut steered = steered().await;
    steered.agent.install(words(), Action::Hold).await;
    provoke(&steered, Way::Stream, Ruling::Hold).await;
    let captured = checkpoint(&mut steered.agent, 1 << 50).await;
    let [held] = captured.kept.as_slice() else {
        panic!("one message is held: {captured:?}");
    };
    assert_eq!(held.from, ONE);
    assert_eq!(held.connection, Some(captured.streams[0].connection));
    let word = Word::Tell {
        number: 0,
        by: Way::Stream,
    };
    assert_eq!(held.message, rmp_serde::to_vec(&word).ok());
    let before = steered
        .two
        .state()
        .await
        .expect("it lives")
        .state
        .heard
        .len();
    let by = Way::Stream;
    call(
        &steered.one,
        Call::Tell {
            to: TWO,
            by,
            count: 20,
        },
    )
    .await;
    let withdraw = WithdrawFilters { filters: None };
    steered
        .agent
        .send(&AgentToHost::WithdrawFilters(withdraw))
        .await;
    let all = until(&steered.two, "what was held", heard(before + 21)).await;
    let held = numbers(&all)[before + 1..].to_vec();
    assert_eq!(held, (0..20).collect::<Vec<_>>());
    assert_eq!(all.lost, []);
}

#[tokio::test]
async fn the_news_of_a_lost_connection_waits_until_the_filter_ends() {
    let mut steered = steered().await;
    let lost = Matcher::Disconnect { peer: ONE };
    steered.agent.install(lost, Action::Postpone).await;
    let mut reports = steered.two.watch().await.expect("it lives");
    // How soon an installed filter is in force is the hook's own business.
    loop {
        tell(&steered.one, TWO, Way::Stream).await;
        report(&mut reports, "a word", |it| it.kind == Kind::Message).await;
        call(&steered.one, Call::Disconnect(TWO)).await;
        let end = report(&mut reports, "the end", |it| it.kind == Kind::Disconnect).await;
        if end.verdict == Ruling::Postpone {
            assert_eq!(end.filter, Some(FilterId::new(9)));
            break;
        }
    }
    let before = steered.two.state().await.expect("it lives");
    assert_eq!(before.connected, [ONE], "it takes the connection for open");
    // Whoever searches from a checkpoint knows that the news will come.
    let captured = checkpoint(&mut steered.agent, 1 << 50).await;
    let [lost] = captured.kept.as_slice() else {
        panic!("one thing is kept back: {captured:?}");
    };
    assert_eq!((lost.from, &lost.message), (ONE, &None));
    assert_eq!(lost.connection, Some(captured.streams[0].connection));
    // What it says goes on a newer connection, and so do answers.
    tell(&steered.two, ONE, Way::Stream).await;
    until(&steered.one, "a word", heard(1)).await;
    let ask = Call::Ask {
        to: TWO,
        by: Way::Stream,
    };
    call(&steered.one, ask).await;
    until(&steered.one, "an answer", heard(2)).await;
    let during = steered.two.state().await.expect("it lives").state;
    assert_eq!(during.lost, before.state.lost);
    assert_eq!(during.heard.len(), before.state.heard.len() + 1);

    let withdraw = WithdrawFilters { filters: None };
    steered
        .agent
        .send(&AgentToHost::WithdrawFilters(withdraw))
        .await;
    // It is never swallowed; and the end of one connection ends the others, as always.
    let count = before.state.lost.len() + 1;
    until(&steered.two, "the loss", |it| it.lost.len() == count).await;
    until(&steered.one, "the loss", |it| it.lost == [TWO]).await;
}

#[tokio::test]
async fn timers_are_postponed_and_calls_refused() {
    let mut steered = steered().await;
    let refused = Matcher::Call {
        kind: "Tick".to_owned(),
        content: None,
    };
    steered.agent.install(refused, Action::Refuse).await;
    let error = loop {
        if let Err(error) = steered.two.call(Call::Tick).await {
            break error;
        }
    };
    assert_eq!(error, CallError::Refused(FilterId::new(9)));

    let mut reports = steered.two.watch().await.expect("it lives");
    let withdraw = WithdrawFilters { filters: None };
    steered
        .agent
        .send(&AgentToHost::WithdrawFilters(withdraw))
        .await;
    let timer = Matcher::Timer {
        kind: "First".to_owned(),
        content: None,
    };
    steered.agent.install(timer, Action::Postpone).await;
    loop {
        call(&steered.two, Call::Arm(Alarm::First, 1)).await;
        let next = report(&mut reports, "the timer", |it| it.event == "timer First").await;
        if next.verdict == Ruling::Postpone {
            assert_eq!(next.timers, [Alarm::First]);
            break;
        }
    }
    report(&mut reports, "it again", |it| {
        it.verdict == Ruling::Postpone
    })
    .await;
    let withdraw = WithdrawFilters { filters: None };
    steered
        .agent
        .send(&AgentToHost::WithdrawFilters(withdraw))
        .await;
    report(&mut reports, "its end", |it| {
        it.event == "timer First" && it.verdict == Ruling::Run
    })
    .await;
}

/// Has a node take a checkpoint and reads it.
async fn checkpoint(agent: &mut Agent, number: u64) -> capture::Captured<Probe> {
    take(agent, number).await;
    let (_, captured) = read(&wait_for(agent, number).await);
    captured
}

async fn take(agent: &mut Agent, number: u64) {
    let number = CheckpointNumber::new(number).expect("it works");
    agent
        .send(&AgentToHost::TakeCheckpoint(TakeCheckpoint { number }))
        .await;
}

/// Waits for the checkpoint of a number, skipping what comes before.
async fn wait_for(agent: &mut Agent, number: u64) -> Checkpoint {
    loop {
        let taken = next_checkpoint(agent).await;
        if taken.number.get() == number {
            return taken;
        }
    }
}

async fn next_checkpoint(agent: &mut Agent) -> Checkpoint {
    let fits = |message: &HostToAgent| matches!(message, HostToAgent::Checkpoint(_));
    match agent.wait("a checkpoint", fits).await {
        HostToAgent::Checkpoint(taken) => taken,
        other => unreachable!("it was waited for: {other:?}"),
    }
}

fn read(taken: &Checkpoint) -> (Content, capture::Captured<Probe>) {
    let content = taken.body.read().expect("it works");
    let (_, captured) = capture::read(&content).expect("it works");
    (content, captured)
}

#[tokio::test]
async fn a_25_every_checkpoint_shows_the_receipt_of_what_its_state_has_handled() {
    const ROUNDS: u64 = 20;
    const WORDS: u32 = 150;
    let sockets = [Socket::new(), Socket::new()];
    let one = start(hooked(ONE, &sockets[0]));
    let two = start(hooked(TWO, &sockets[1]));
    introduce(&[&one, &two]).await;
    let mut agents = [sockets[0].accept().await, sockets[1].accept().await];
    // Above what the time of day gives, and not so far that nobody believes it.
    let far = 1 << 45;
    for round in 0..ROUNDS {
        // Checkpoints are asked for here and forced there while words are on their way.
        take(&mut agents[(round % 2) as usize], far + round).await;
        let words = Call::Tell {
            to: TWO,
            by: Way::Stream,
            count: WORDS,
        };
        call(&one, words).await;
    }
    let all = ROUNDS as usize * WORDS as usize;
    until(&two, "the words", heard(all)).await;
    take(&mut agents[1], far + ROUNDS).await;
    let mut shown = Vec::new();
    loop {
        let taken = next_checkpoint(&mut agents[1]).await;
        let (content, captured) = read(&taken);
        let channels = content.channels.expect("they are kept");
        let received = channels.receiving.iter().map(|it| it.received.up_to());
        let handled = captured.local.service.heard.len();
        assert_eq!(received.sum::<u64>(), handled as u64, "{}", taken.number);
        shown.push(handled);
        if taken.number.get() == far + ROUNDS {
            break;
        }
    }
    assert_eq!(shown.last(), Some(&all));
    assert!(shown.len() > 2, "{shown:?}");
}

#[tokio::test]
async fn each_word_of_a_sender_without_a_hook_raises_the_past_to_the_present() {
    let Steered {
        one,
        two,
        mut agent,
        _socket,
    } = steered().await;
    tell_many(&one, Way::Stream, 1).await;
    until(&two, "the first word", heard(1)).await;
    for number in [1 << 45, (1 << 45) + 9] {
        take(&mut agent, number).await;
        wait_for(&mut agent, number).await;
        // On the same connection: nothing new is said of it, but the sender may have heard anything by now.
        let words = two.state().await.expect("it lives").state.heard.len();
        tell_many(&one, Way::Stream, 1).await;
        until(&two, "one more word", heard(words + 1)).await;
        take(&mut agent, number + 1).await;
        let (content, _) = read(&wait_for(&mut agent, number + 1).await);
        assert!(
            content.past.floor().get() >= number,
            "{:?} at {number}",
            content.past
        );
    }
}

#[tokio::test]
async fn both_ends_of_a_connection_have_one_name_in_their_checkpoints() {
    let sockets = [Socket::new(), Socket::new()];
    let one = start(hooked(ONE, &sockets[0]));
    let two = start(hooked(TWO, &sockets[1]));
    introduce(&[&one, &two]).await;
    let mut agents = [sockets[0].accept().await, sockets[1].accept().await];
    call(
        &one,
        Call::Ask {
            to: TWO,
            by: Way::Stream,
        },
    )
    .await;
    until(&one, "an answer", heard(1)).await;
    // Above what the time of day gives, and not so far that nobody believes it.
    let far = 1 << 45;
    let first = checkpoint(&mut agents[0], far).await;
    let second = checkpoint(&mut agents[1], far + 1).await;
    let [mine] = first.streams[..] else {
        panic!("{:?}", first.streams)
    };
    let [theirs] = second.streams[..] else {
        panic!("{:?}", second.streams)
    };
    assert_eq!(mine.connection, theirs.connection);
    assert_eq!(
        (mine.connection.opener, mine.peer, theirs.peer),
        (ONE, TWO, ONE)
    );
    assert_eq!(
        mine.receiving.map(|(_, serial)| serial),
        Some(theirs.sending)
    );
    assert_eq!(
        theirs.receiving.map(|(_, serial)| serial),
        Some(mine.sending)
    );
    assert_eq!(first.local.service.heard.len(), 1);

    // A message from a later logical time forces a checkpoint of the state before it.
    tell(&two, ONE, Way::Datagram).await;
    let (_, before) = read(&wait_for(&mut agents[0], far + 1).await);
    assert_eq!(before.local.service.heard.len(), 1);
    until(&one, "the word", heard(2)).await;
}

fn run_on_copy(scene: &Scene<'_, Probe>) -> Performed<Probe> {
    let (mut copy, mut dice) = (scene.local.clone(), scene.dice);
    let ran = live::run(TWO, scene.setup, &mut copy, scene.input.clone(), &mut dice);
    (copy, ran.expect("it works"))
}

/// Allows one call less than would be too many, running the handler on a copy.
struct Limit;

impl Guard<Probe> for Limit {
    fn examine(&mut self, scene: &Scene<'_, Probe>) -> Examined<Probe> {
        let (copy, effects) = run_on_copy(scene);
        let too_much =
            copy.service.calls > 2 || copy.service.heard.len() > 1 || copy.service.fired.len() > 1;
        match (too_much, scene.input) {
            (true, _) => Examined::Veto(Refusal {
                property: "enough".to_owned(),
                explanation: "one more is too many".to_owned(),
                hold: false,
            }),
            (false, Input::Timer(_)) => Examined::Pass(None),
            (false, _) => Examined::Pass(Some((copy, effects))),
        }
    }
}

#[tokio::test]
async fn a_guard_stops_what_it_objects_to() {
    let one = start(Options::new(ONE, ()));
    let mut options = Options::new(TWO, ());
    options.guard = Some(Box::new(Limit));
    let two = start(options);
    introduce(&[&one, &two]).await;
    let mut reports = two.watch().await.expect("it lives");
    let veto = |event: &'static str| {
        move |report: &scry::runtime::Report<Probe>| {
            report.event.starts_with(event) && report.verdict == Ruling::Veto
        }
    };
    call(&two, Call::Arm(Alarm::Often(9), 0)).await;
    let timer = report(&mut reports, "a vetoed timer", veto("timer")).await;
    assert_eq!(timer.property.as_deref(), Some("enough"));
    assert_eq!(timer.timers, [Alarm::Often(9)]);
    call(&two, Call::Cancel(Alarm::Often(9))).await;
    let refused = two.call(Call::Tick).await;
    assert!(matches!(refused, Err(CallError::Vetoed { .. })));
    for _ in 0..2 {
        tell(&one, TWO, Way::Stream).await;
    }
    report(&mut reports, "a vetoed word", veto("Tell")).await;
    // A veto on a connection is a broken connection.
    until(&one, "the loss", |probe| probe.lost == [TWO]).await;
    let state = until(&two, "the loss", |probe| probe.lost == [ONE]).await;
    assert_eq!(
        (state.heard.len(), state.fired.len(), state.calls),
        (1, 1, 2)
    );
}

/// Objects so often to the news of a lost connection, and notes whether it was said that it had come before.
struct Reluctant(usize, std::sync::Arc<std::sync::Mutex<Vec<bool>>>);

impl Guard<Probe> for Reluctant {
    fn examine(&mut self, scene: &Scene<'_, Probe>) -> Examined<Probe> {
        let mut seen = self.1.lock().expect("nobody panics with it");
        if !matches!(scene.input, Input::Disconnect(_)) || seen.len() == self.0 {
            return Examined::Pass(None);
        }
        seen.push(scene.again);
        Examined::Veto(Refusal {
            property: "company".to_owned(),
            explanation: "it would be alone".to_owned(),
            hold: false,
        })
    }
}

#[tokio::test]
async fn a_loss_that_is_refused_again_and_again_is_one_refusal_and_comes_at_last() {
    let one = start(Options::new(ONE, ()));
    let mut options = Options::new(TWO, ());
    let seen = std::sync::Arc::default();
    options.guard = Some(Box::new(Reluctant(3, std::sync::Arc::clone(&seen))));
    let two = start(options);
    introduce(&[&one, &two]).await;
    tell(&one, TWO, Way::Stream).await;
    until(&two, "the word", heard(1)).await;
    let mut reports = two.watch().await.expect("it lives");
    one.shutdown().await;
    until(&two, "the loss", |probe| probe.lost == [ONE]).await;
    assert_eq!(*seen.lock().expect("nobody panics"), [false, true, true]);
    two.shutdown().await;
    let mut vetoes = 0;
    while let Some(report) = reports.recv().await {
        vetoes += usize::from(report.verdict == Ruling::Veto);
    }
    assert_eq!(vetoes, 1);
}

/// Objects to calls with many words, which it runs on a copy as all others.
struct Brief;

const MANY: u32 = 7;

impl Guard<Probe> for Brief {
    fn examine(&mut self, scene: &Scene<'_, Probe>) -> Examined<Probe> {
        let (copy, effects) = run_on_copy(scene);
        match effects.len() as u32 {
            MANY.. => Examined::Veto(Refusal {
                property: "brief".to_owned(),
                explanation: "these are many words".to_owned(),
                hold: false,
            }),
            _ => Examined::Pass(Some((copy, effects))),
        }
    }
}

#[tokio::test]
async fn a_111_what_a_refused_run_sent_never_leaves_and_the_rest_leaves_in_order() {
    let one = start(Options::new(ONE, ()));
    let mut options = Options::new(TWO, ());
    options.guard = Some(Box::new(Brief));
    let two = start(options);
    introduce(&[&one, &two]).await;
    let words = |count| Call::Tell {
        to: ONE,
        by: Way::Stream,
        count,
    };
    call(&two, words(3)).await;
    let refused = two.call(words(MANY)).await;
    assert!(matches!(refused, Err(CallError::Vetoed { .. })));
    call(&two, words(2)).await;
    // A connection keeps the order: had a refused word left, it would be before the last ones.
    let all = until(&one, "the last words", heard(5)).await;
    assert_eq!(numbers(&all), [0, 1, 2, 0, 1]);
}

async fn tell_many(one: &Handle<Probe>, by: Way, count: u32) {
    call(one, Call::Tell { to: TWO, by, count }).await;
}
