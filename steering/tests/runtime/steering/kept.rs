//! What is kept on a connection until it breaks nothing.

use super::*;

/// Keeps every third word until it was looked at so often, and counts the looks; or breaks its connection after as many.
struct Keeper {
    looks: u32,
    breaks: bool,
    looked: std::sync::Arc<std::sync::atomic::AtomicU32>,
}

impl Guard<Probe> for Keeper {
    fn examine(&mut self, scene: &Scene<'_, Probe>) -> Examined<Probe> {
        let kept = match scene.input {
            Input::Message { message, .. } => {
                matches!(message, Word::Tell { number, .. } if number % 3 == 1)
            }
            _ => false,
        };
        if !kept {
            return Examined::Pass(None);
        }
        let looked = &self.looked;
        if !scene.again {
            looked.store(0, std::sync::atomic::Ordering::Relaxed);
        }
        let count = looked.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let refusal = |hold| Refusal {
            property: "later".to_owned(),
            explanation: "not now".to_owned(),
            hold,
        };
        match (count < self.looks, self.breaks) {
            (true, _) => Examined::Veto(refusal(true)),
            (false, true) => Examined::Veto(refusal(false)),
            (false, false) => Examined::Pass(None),
        }
    }
}

fn keeper(looks: u32, breaks: bool) -> Options<Probe> {
    let mut options = Options::new(TWO, ());
    options.guard = Some(Box::new(Keeper {
        looks,
        breaks,
        looked: std::sync::Arc::default(),
    }));
    options
}

async fn vetoes(mut reports: tokio::sync::mpsc::Receiver<scry::runtime::Report<Probe>>) -> usize {
    let mut vetoes = 0;
    while let Some(report) = reports.recv().await {
        vetoes += usize::from(report.verdict == Ruling::Veto);
    }
    vetoes
}

#[tokio::test]
async fn what_is_kept_on_a_connection_comes_in_order_with_all_that_follows_and_counts_once() {
    let one = start(Options::new(ONE, ()));
    let two = start(keeper(4, false));
    introduce(&[&one, &two]).await;
    let reports = two.watch().await.expect("it lives");
    tell_many(&one, Way::Stream, 8).await;
    until(&two, "the first word", heard(1)).await;
    // What comes on its own does not wait.
    tell_many(&one, Way::Datagram, 1).await;
    until(&two, "the word beside", heard(2)).await;
    // The news of the lost connection waits behind what came before it.
    one.shutdown().await;
    let state = until(&two, "the loss", |probe| probe.lost == [ONE]).await;
    assert_eq!(numbers(&state), [0, 0, 1, 2, 3, 4, 5, 6, 7]);
    two.shutdown().await;
    assert_eq!(vetoes(reports).await, 3, "three words were kept, each once");
}

#[tokio::test]
async fn what_is_kept_on_a_connection_breaks_it_once_that_breaks_nothing() {
    let one = start(Options::new(ONE, ()));
    let two = start(keeper(3, true));
    introduce(&[&one, &two]).await;
    let reports = two.watch().await.expect("it lives");
    tell_many(&one, Way::Stream, 3).await;
    let state = until(&two, "the loss", |probe| probe.lost == [ONE]).await;
    assert_eq!(numbers(&state), [0]);
    until(&one, "the loss", |probe| probe.lost == [TWO]).await;
    two.shutdown().await;
    assert_eq!(vetoes(reports).await, 1);
}

#[tokio::test]
async fn nothing_is_kept_on_a_connection_beyond_the_limit() {
    let one = start(Options::new(ONE, ()));
    let limit = Duration::from_millis(700);
    let mut options = keeper(u32::MAX, false);
    options.late_max = limit;
    let two = start(options);
    introduce(&[&one, &two]).await;
    let begun = std::time::Instant::now();
    tell_many(&one, Way::Stream, 3).await;
    let state = until(&two, "all words", heard(3)).await;
    assert!(begun.elapsed() >= limit, "{:?}", begun.elapsed());
    assert_eq!(numbers(&state), [0, 1, 2]);
    // A reset ends what was kept for the incarnation before it.
    tell_many(&one, Way::Stream, 3).await;
    until(&two, "one more", heard(4)).await;
    two.reset(true).await.expect("it lives");
    until(&one, "the loss", |probe| probe.lost == [TWO]).await;
    tell_many(&one, Way::Stream, 1).await;
    let state = until(&two, "another incarnation", heard(1)).await;
    assert_eq!(numbers(&state), [0]);
}

/// When each word was first looked at, by its sender.
type Looks = std::sync::Arc<std::sync::Mutex<Vec<(NodeId, u32, std::time::Instant)>>>;

/// Keeps words for as many looks as chance says; some for good.
struct Moody {
    seed: u64,
    left: std::collections::BTreeMap<NodeId, u64>,
    looks: Looks,
}

impl Guard<Probe> for Moody {
    fn examine(&mut self, scene: &Scene<'_, Probe>) -> Examined<Probe> {
        let Input::Message {
            from,
            message: Word::Tell { number, .. },
        } = scene.input
        else {
            return Examined::Pass(None);
        };
        if !scene.again {
            let mut looks = self.looks.lock().expect("nobody panics with it");
            looks.push((*from, *number, std::time::Instant::now()));
            let draw = (self.seed + u64::from(from.get()) * 31 + u64::from(*number))
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                >> 61;
            self.left
                .insert(*from, if draw == 7 { u64::MAX } else { draw / 2 });
        }
        let left = self.left.entry(*from).or_default();
        if *left == 0 {
            return Examined::Pass(None);
        }
        *left -= 1;
        Examined::Veto(Refusal {
            property: "mood".to_owned(),
            explanation: "not now".to_owned(),
            hold: true,
        })
    }
}

#[tokio::test]
async fn whatever_is_kept_nothing_is_lost_overtaken_or_kept_beyond_the_limit() {
    const THREE: NodeId = NodeId::new(3);
    const WORDS: u32 = 20;
    let limit = Duration::from_millis(400);
    for seed in [1, 2, 3] {
        let looks = Looks::default();
        let mut options = Options::new(TWO, ());
        options.late_max = limit;
        options.guard = Some(Box::new(Moody {
            seed,
            left: std::collections::BTreeMap::new(),
            looks: std::sync::Arc::clone(&looks),
        }));
        let two = start(options);
        let others = [ONE, THREE].map(|id| start(Options::new(id, ())));
        introduce(&[&others[0], &two, &others[1]]).await;
        for other in &others {
            tell_many(other, Way::Stream, WORDS).await;
        }
        let state = until(&two, "all words", heard(2 * WORDS as usize)).await;
        let looks = looks.lock().expect("nobody panics").clone();
        for from in [ONE, THREE] {
            let of_one = state.heard.iter().filter(|(node, _)| *node == from);
            let came: Vec<&Word> = of_one.map(|(_, word)| word).collect();
            for (number, word) in (0..WORDS).zip(&came) {
                assert!(
                    matches!(word, Word::Tell { number: told, .. } if *told == number),
                    "seed {seed}: {came:?}"
                );
            }
            let times: Vec<_> = looks.iter().filter(|look| look.0 == from).collect();
            assert_eq!(times.len(), WORDS as usize, "seed {seed}");
            for two in times.windows(2) {
                let kept = two[1].2 - two[0].2;
                // As late as a busy machine may be.
                assert!(
                    kept < limit + Duration::from_secs(5),
                    "seed {seed}: {kept:?}"
                );
            }
        }
    }
}
