//! Events that a guard suspects: held while neighbors are asked, then handled or refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use scry::model::event::Input;
use scry::runtime::guard::{Asked, Meanwhile, Refusal, Reviewed, Scene};
use scry::runtime::{CallError, Examined, Guard, Handle, Kind, Options, Ruling};
use scry_protocol::filter::Action;
use scry_protocol::link::host::{AgentToHost, HostToAgent, Outcome, Surroundings};

use super::{checkpoint, hooked, tell_many, words};
use crate::agent::{Agent, Socket};
use crate::cluster::{ONE, TWO, call, heard, introduce, numbers, report, start, until};
use crate::probe::{Alarm, Call, Probe, Way, Word};

/// Suspects every third word, every timer and every call that ticks, and says of each what it is told to.
struct Doubtful {
    hold_ms: u64,
    refuses: bool,
}

impl Guard<Probe> for Doubtful {
    fn examine(&mut self, scene: &Scene<'_, Probe>) -> Examined<Probe> {
        let doubtful = match scene.input {
            Input::Message { message, .. } => {
                matches!(message, Word::Tell { number, .. } if number % 3 == 1)
            }
            Input::Timer(_) | Input::Call(Call::Tick) => true,
            _ => false,
        };
        match doubtful {
            true => Examined::Suspect {
                property: "certain".to_owned(),
            },
            false => Examined::Pass(None),
        }
    }

    fn review(
        &mut self,
        _: &Scene<'_, Probe>,
        property: &str,
        asked: &Asked<'_, Probe>,
    ) -> Reviewed<Probe> {
        match (self.refuses, matches!(asked.meanwhile, Meanwhile::Idle)) {
            (true, true) => Reviewed::Refuse(Refusal {
                property: property.to_owned(),
                explanation: "nobody answers for it".to_owned(),
                hold: false,
            }),
            (true, false) => Reviewed::AskAgain { guilty: false },
            _ => Reviewed::Run(Outcome::Cleared, None),
        }
    }

    fn hold_ms_max(&self) -> u64 {
        self.hold_ms
    }
}

async fn doubted(hold_ms: u64, refuses: bool) -> (Handle<Probe>, Handle<Probe>, Agent) {
    let one = start(Options::new(ONE, ()));
    let socket = Socket::new();
    let mut options = hooked(TWO, &socket);
    options.guard = Some(Box::new(Doubtful { hold_ms, refuses }));
    let two = start(options);
    introduce(&[&one, &two]).await;
    let agent = socket.accept().await;
    (one, two, agent)
}

fn is_question(message: &HostToAgent) -> bool {
    matches!(message, HostToAgent::LookAgain(_))
}

/// Answers one question, of a neighbor that has nothing to say.
async fn answer(agent: &mut Agent) {
    let HostToAgent::LookAgain(look) = agent.wait("a question", is_question).await else {
        unreachable!("that is what was waited for");
    };
    let surroundings = Surroundings {
        number: look.number,
        answers: Some(look.question),
        neighbors: Vec::new(),
    };
    agent.send(&AgentToHost::Surroundings(surroundings)).await;
}

/// Finds nothing wrong with anything at first sight, and everything when it looks again.
struct Careless;

impl Guard<Probe> for Careless {
    fn examine(&mut self, _: &Scene<'_, Probe>) -> Examined<Probe> {
        Examined::Pass(None)
    }

    fn review(
        &mut self,
        _: &Scene<'_, Probe>,
        property: &str,
        _: &Asked<'_, Probe>,
    ) -> Reviewed<Probe> {
        Reviewed::Refuse(Refusal {
            property: property.to_owned(),
            explanation: "it looked".to_owned(),
            hold: false,
        })
    }

    fn is_shared(&self, property: &str) -> bool {
        property != "of one node"
    }

    fn hold_ms_max(&self) -> u64 {
        600_000
    }
}

#[tokio::test]
async fn a_filter_has_the_guard_look_at_what_seems_harmless() {
    let one = start(Options::new(ONE, ()));
    let socket = Socket::new();
    let mut options = hooked(TWO, &socket);
    options.guard = Some(Box::new(Careless));
    let two = start(options);
    introduce(&[&one, &two]).await;
    let mut agent = socket.accept().await;
    agent.install(words(), Action::Check).await;
    let mut reports = two.watch().await.expect("it lives");
    // How soon an installed filter is in force is the hook's own business; every word before that is handled.
    let asked = loop {
        tell_many(&one, Way::Datagram, 1).await;
        tokio::select! {
            message = agent.wait("a question", is_question) => break message,
            said = report(&mut reports, "a word", |it| it.kind == Kind::Message) => {
                assert_eq!(said.verdict, Ruling::Run);
            }
        }
    };
    let HostToAgent::LookAgain(look) = asked else {
        unreachable!("that is what was waited for");
    };
    let before = two.state().await.expect("it lives").state.heard.len();
    // Only what the filter means is looked at.
    assert_eq!(two.call(Call::Tick).await, Ok(()));
    let surroundings = Surroundings {
        number: look.number,
        answers: Some(look.question),
        neighbors: Vec::new(),
    };
    agent.send(&AgentToHost::Surroundings(surroundings)).await;
    let refused = report(&mut reports, "a refusal", |it| it.verdict != Ruling::Run).await;
    assert_eq!(refused.verdict, Ruling::Veto);
    let after = two.state().await.expect("it lives").state;
    assert_eq!(after.heard.len(), before);
}

#[tokio::test]
async fn what_is_held_runs_in_order_when_nobody_answers() {
    let (one, two, _agent) = doubted(3, false).await;
    tell_many(&one, Way::Stream, 20).await;
    let state = until(&two, "all words", heard(20)).await;
    assert_eq!(numbers(&state), (0..20).collect::<Vec<u32>>());
    assert_eq!(two.call(Call::Tick).await, Ok(()));
    call(&two, Call::Arm(Alarm::First, 0)).await;
    until(&two, "the alarm", |probe| probe.fired == [Alarm::First]).await;
}

#[tokio::test]
async fn what_is_held_keeps_its_connection_waiting_and_nothing_else() {
    let (one, two, mut agent) = doubted(600_000, false).await;
    tell_many(&one, Way::Stream, 3).await;
    until(&two, "the first word", heard(1)).await;
    // The second is held, and the third waits behind it; what comes on its own does not.
    tell_many(&one, Way::Datagram, 1).await;
    let state = until(&two, "the word beside", heard(2)).await;
    assert_eq!(numbers(&state), [0, 0]);
    answer(&mut agent).await;
    let state = until(&two, "all words", heard(4)).await;
    assert_eq!(numbers(&state), [0, 0, 1, 2]);
    let told = agent
        .wait("what came of it", |message| {
            matches!(message, HostToAgent::Suspicion(_))
        })
        .await;
    let HostToAgent::Suspicion(told) = told else {
        unreachable!("that is what was waited for");
    };
    assert_eq!(told.outcome, Outcome::Cleared);
}

#[tokio::test]
async fn what_is_held_and_refused_is_kept_back_as_a_network_might() {
    let (one, two, mut agent) = doubted(600_000, true).await;
    let waiting = tokio::spawn({
        let two = two.clone();
        async move { two.call(Call::Tick).await }
    });
    answer(&mut agent).await;
    let refused = waiting.await.expect("it ends");
    assert!(
        matches!(refused, Err(CallError::Vetoed { .. })),
        "{refused:?}"
    );
    // A refused word on a connection is a broken connection.
    tell_many(&one, Way::Stream, 3).await;
    answer(&mut agent).await;
    until(&two, "the loss", |probe| probe.lost == [ONE]).await;
    let state = until(&one, "the loss", |probe| probe.lost == [TWO]).await;
    assert!(state.heard.is_empty());
}

#[tokio::test]
async fn a_refusal_needs_a_node_to_which_nothing_happened_meanwhile() {
    let (one, two, mut agent) = doubted(600_000, true).await;
    tell_many(&one, Way::Stream, 3).await;
    until(&two, "the first word", heard(1)).await;
    tell_many(&one, Way::Datagram, 1).await;
    until(&two, "the word beside", heard(2)).await;
    // The first answer comes too late for that; the second question is about a node that was left alone.
    answer(&mut agent).await;
    answer(&mut agent).await;
    until(&two, "the loss", |probe| probe.lost == [ONE]).await;
}

/// Finds everything guilty, but only when the time of the first wait is over can it say that all were so at one moment.
struct Hesitant {
    since: Option<Instant>,
    reviews: Arc<AtomicU32>,
}

const HESITANT_WAIT: Duration = Duration::from_millis(300);

impl Guard<Probe> for Hesitant {
    fn examine(&mut self, _: &Scene<'_, Probe>) -> Examined<Probe> {
        self.since = Some(Instant::now());
        Examined::Suspect {
            property: "certain".to_owned(),
        }
    }

    fn review(
        &mut self,
        _: &Scene<'_, Probe>,
        property: &str,
        _: &Asked<'_, Probe>,
    ) -> Reviewed<Probe> {
        if self.reviews.fetch_add(1, Ordering::Relaxed) == 0 {
            while self.since.is_some_and(|it| it.elapsed() < HESITANT_WAIT) {
                std::thread::yield_now();
            }
            return Reviewed::AskAgain { guilty: true };
        }
        Reviewed::Refuse(Refusal {
            property: property.to_owned(),
            explanation: "now it is".to_owned(),
            hold: false,
        })
    }

    fn hold_ms_max(&self) -> u64 {
        HESITANT_WAIT.as_millis() as u64
    }
}

#[tokio::test]
async fn what_is_guilty_though_not_at_one_moment_is_worth_more_time() {
    let socket = Socket::new();
    let mut options = hooked(TWO, &socket);
    let reviews = Arc::new(AtomicU32::new(0));
    options.guard = Some(Box::new(Hesitant {
        since: None,
        reviews: reviews.clone(),
    }));
    let two = start(options);
    let mut agent = socket.accept().await;
    let begun = Instant::now();
    let waiting = tokio::spawn({
        let two = two.clone();
        async move { two.call(Call::Tick).await }
    });
    answer(&mut agent).await;
    tokio::select! {
        () = answer(&mut agent) => {}
        ended = waiting => {
            // On a machine that is busy an answer may come later than the longest wait, which says nothing.
            let too_late = reviews.load(Ordering::Relaxed) == 0 || begun.elapsed() >= Duration::from_millis(500);
            assert!(too_late, "it was not asked about again: {ended:?} after {:?}", begun.elapsed());
        }
    }
}

/// Suspects the news of lost connections, and clears it when it is told to look again.
struct Mourning;

impl Guard<Probe> for Mourning {
    fn examine(&mut self, scene: &Scene<'_, Probe>) -> Examined<Probe> {
        match scene.input {
            Input::Disconnect(_) => Examined::Suspect {
                property: "together".to_owned(),
            },
            _ => Examined::Pass(None),
        }
    }

    fn hold_ms_max(&self) -> u64 {
        600_000
    }
}

#[tokio::test]
async fn while_a_loss_is_asked_about_it_is_shown_and_what_is_sent_goes_on_a_new_connection() {
    let one = start(Options::new(ONE, ()));
    let socket = Socket::new();
    let mut options = hooked(TWO, &socket);
    options.guard = Some(Box::new(Mourning));
    let two = start(options);
    introduce(&[&one, &two]).await;
    let mut agent = socket.accept().await;
    tell_many(&one, Way::Stream, 1).await;
    until(&two, "the word", heard(1)).await;
    let begun = Instant::now();
    call(&one, Call::Disconnect(TWO)).await;
    let HostToAgent::LookAgain(look) = agent.wait("a question", is_question).await else {
        unreachable!("that is what was waited for");
    };
    assert_eq!(look.about, Some(ONE));
    let tell = Call::Tell {
        to: ONE,
        by: Way::Stream,
        count: 1,
    };
    call(&two, tell).await;
    until(&one, "the word", heard(1)).await;
    let captured = checkpoint(&mut agent, 1 << 50).await;
    let lost = two.state().await.expect("it lives").state.lost;
    // Such news is held for a second at most, and a busy machine may take longer.
    if begun.elapsed() < Duration::from_millis(900) {
        let [kept] = captured.kept.as_slice() else {
            panic!("one thing is kept back: {captured:?}");
        };
        assert_eq!((kept.from, &kept.message), (ONE, &None));
        assert_eq!(lost, []);
    }
    let surroundings = Surroundings {
        number: look.number,
        answers: Some(look.question),
        neighbors: Vec::new(),
    };
    agent.send(&AgentToHost::Surroundings(surroundings)).await;
    until(&two, "the loss", |probe| probe.lost == [ONE]).await;
}

/// Refuses a word where it is, has no answer that would be certain when it is offered again, and in the end clears it.
struct Unsure {
    looks: Arc<AtomicU32>,
}

const UNSURE_LOOKS: u32 = 4;

impl Guard<Probe> for Unsure {
    fn examine(&mut self, scene: &Scene<'_, Probe>) -> Examined<Probe> {
        let Input::Message { .. } = scene.input else {
            return Examined::Pass(None);
        };
        let property = "certain".to_owned();
        match (scene.again, self.looks.fetch_add(1, Ordering::Relaxed)) {
            (false, _) => Examined::Veto(Refusal {
                property,
                explanation: "it is".to_owned(),
                hold: true,
            }),
            (true, ..UNSURE_LOOKS) => Examined::Suspect { property },
            (true, _) => Examined::Pass(None),
        }
    }

    fn review(&mut self, _: &Scene<'_, Probe>, _: &str, _: &Asked<'_, Probe>) -> Reviewed<Probe> {
        Reviewed::AskAgain { guilty: false }
    }

    fn hold_ms_max(&self) -> u64 {
        5
    }
}

/// The news that nobody answers, or that all have moved on each time, may come at any moment: it must not matter.
#[tokio::test]
async fn what_was_refused_stays_where_it_is_until_something_clears_it() {
    for answers in [0, UNSURE_LOOKS - 1] {
        let one = start(Options::new(ONE, ()));
        let socket = Socket::new();
        let mut options = hooked(TWO, &socket);
        let looks = Arc::new(AtomicU32::new(0));
        options.guard = Some(Box::new(Unsure {
            looks: Arc::clone(&looks),
        }));
        let two = start(options);
        introduce(&[&one, &two]).await;
        let mut agent = socket.accept().await;
        tell_many(&one, Way::Stream, 1).await;
        for _ in 0..answers {
            answer(&mut agent).await;
        }
        until(&two, "the word", heard(1)).await;
        let looks = looks.load(Ordering::Relaxed);
        assert_eq!(looks, UNSURE_LOOKS + 1, "it ran before it was cleared");
    }
}

#[tokio::test]
async fn a_timer_that_is_cancelled_while_it_is_held_does_not_fire() {
    let (_one, two, mut agent) = doubted(600_000, false).await;
    call(&two, Call::Arm(Alarm::First, 0)).await;
    let HostToAgent::LookAgain(look) = agent.wait("a question", is_question).await else {
        unreachable!("that is what was waited for");
    };
    call(&two, Call::Cancel(Alarm::First)).await;
    let surroundings = Surroundings {
        number: look.number,
        answers: Some(look.question),
        neighbors: Vec::new(),
    };
    agent.send(&AgentToHost::Surroundings(surroundings)).await;
    call(&two, Call::Arm(Alarm::Second, 0)).await;
    answer(&mut agent).await;
    let state = until(&two, "the second", |probe| !probe.fired.is_empty()).await;
    assert_eq!(state.fired, [Alarm::Second]);
}
