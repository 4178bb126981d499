//! Rows of the list of inputs that broke other decoders: options, life cycle, threads.

mod common;
#[path = "common/face/mod.rs"]
mod face;

use std::sync::Mutex;
use std::thread;

use common::graph::{Rng, arc, source};
use face::openfst::{Form, vector};
use face::{Face, Matrix, MatrixScores, Pull, Results, Status, chain, graph, graph_a, open, results, solo};
use koshi::decoder::{BackendChoice, DecoderConfig};
use koshi::graph::VecSource;
use koshi::search::SearchConfig;

const INF: f32 = f32::INFINITY;

over_both_faces! {
    case_b44_options_out_of_range
    case_b45_defaults_work
    case_b48_channel_used_again
    case_b51_create_and_destroy
    case_b52_lattices_from_many_threads
    case_b54_caller_buffer_overwritten
}

over_both_faces_on_gpu! {
    case_b44_options_out_of_range
    case_b45_defaults_work
    case_b48_channel_used_again
    case_b51_create_and_destroy
    case_b52_lattices_from_many_threads
    case_b54_caller_buffer_overwritten
}

/// Every frame any of `columns` labels.
fn loops(columns: i32) -> VecSource {
    source(Some(0), vec![(0.0, (1..=columns).map(|label| arc(label, label, 0.25, 0)).collect())])
}

fn rows(rng: &mut Rng, frames: usize) -> Vec<f32> {
    (0..frames * 3).map(|_| -(rng.below(40) as f32) * 0.25).collect()
}

fn case_b44_options_out_of_range<F: Face>() {
    let graph = graph::<F>(&graph_a());
    let defaults = DecoderConfig::default();
    let search = |search: SearchConfig| DecoderConfig { search, ..defaults };
    let with = SearchConfig::default();
    let refused = |config: DecoderConfig, name: &str| match F::decoder(&graph, &config) {
        Ok(_) => panic!("{name} is taken: {config:?}"),
        Err(fault) => {
            assert_eq!(fault.status, Status::KOSHI_E_CONFIG, "{}", fault.message);
            assert!(fault.message.contains(name), "{}", fault.message);
        }
    };
    refused(search(SearchConfig { min_active: 10, max_active: 5, ..with }), "min_active 10 is above max_active 5");
    refused(search(SearchConfig { min_active: u32::MAX, ..with }), "min_active");
    for value in [0.0, -0.0, -1.0, INF, -INF, f32::NAN] {
        refused(search(SearchConfig { beam: value, ..with }), "beam");
        refused(search(SearchConfig { lattice_beam: value, ..with }), "lattice_beam");
        refused(search(SearchConfig { beam_delta: value, ..with }), "beam_delta");
        refused(DecoderConfig { frame_shift: value.into(), ..defaults }, "frame_shift");
    }
    for value in [INF, -INF, f32::NAN] {
        refused(search(SearchConfig { acoustic_scale: value, ..with }), "acoustic_scale");
    }
    for max_active in [0, 1] {
        refused(search(SearchConfig { min_active: 0, max_active, ..with }), "max_active");
    }
    refused(search(SearchConfig { link_budget: 0, ..with }), "link_budget");
    for count in [0, u32::MAX] {
        refused(DecoderConfig { num_lanes: count, ..defaults }, "num_lanes");
        refused(DecoderConfig { num_threads: count, ..defaults }, "num_threads");
    }
    // What lies on the edge is fine and decodes.
    for config in [
        search(SearchConfig { min_active: 5, max_active: 5, ..with }),
        search(SearchConfig { min_active: 0, max_active: 2, ..with }),
        search(SearchConfig { max_active: u32::MAX, min_active: u32::MAX, ..with }),
        search(SearchConfig { beam: f32::MIN_POSITIVE, lattice_beam: 1e-45, beam_delta: 1e-45, ..with }),
        search(SearchConfig { beam: f32::MAX, lattice_beam: f32::MAX, beam_delta: f32::MAX, ..with }),
        search(SearchConfig { acoustic_scale: 0.0, ..with }),
        search(SearchConfig { acoustic_scale: -f32::MAX, ..with }),
        search(SearchConfig { link_budget: 1, ..with }),
        search(SearchConfig { link_budget: u32::MAX, ..with }),
        search(SearchConfig { candidate_capacity: 1, token_capacity: 1, link_capacity: 1, ..with }),
        DecoderConfig { num_lanes: 1, num_threads: 1, max_channels: 1, ..defaults },
        DecoderConfig { frame_shift: 5e-324, ..defaults },
    ] {
        let found = solo::<F>(&graph_a(), &config, Matrix::dense(&[-0.5], 1));
        assert_eq!((found.reached_final, &found.paths[0].olabels[..]), (Some(true), &[1][..]), "{config:?}");
    }
    // The GPU, where there is none: said so, and the next decoder is none the worse.
    if F::decoder(&graph, &DecoderConfig { backend: BackendChoice::Cuda, ..defaults })
        .is_err_and(|fault| fault.status != Status::KOSHI_E_NO_DEVICE)
    {
        panic!("another status than KOSHI_E_NO_DEVICE");
    }
    F::decoder(&graph, &defaults).unwrap();
}

fn case_b45_defaults_work<F: Face>() {
    let decoder = F::default_decoder(&graph::<F>(&loops(3))).unwrap();
    let mut rng = Rng(45);
    let utterances: Vec<Vec<f32>> = (0..40).map(|at| rows(&mut rng, at % 7)).collect();
    let mut channels: Vec<F::Channel> = utterances.iter().map(|_| F::channel(&decoder).unwrap()).collect();
    channels.iter_mut().for_each(|channel| F::begin(channel).unwrap());
    let rows = utterances.iter().map(|data| Matrix::dense(data, 3));
    let mut items: Vec<_> = channels.iter_mut().zip(rows).collect();
    assert!(F::batch(&decoder, &mut items).iter().all(Result::is_ok));
    for (channel, data) in channels.iter_mut().zip(&utterances) {
        F::finish(channel).unwrap();
        let alone = solo::<F>(&loops(3), &DecoderConfig::default(), Matrix::dense(data, 3));
        assert_eq!(results::<F>(channel), alone);
    }
}

fn case_b48_channel_used_again<F: Face>() {
    let mut rng = Rng(48);
    let config = DecoderConfig {
        search: SearchConfig { link_budget: 40, ..SearchConfig::default() },
        ..DecoderConfig::default()
    };
    let (_decoder, mut channel) = open::<F>(&loops(3), &config);
    let fresh = results::<F>(&mut channel);
    let state = |fault: Result<(), face::Fault>| assert_eq!(fault.unwrap_err().status, Status::KOSHI_E_STATE);
    for round in 0..6 {
        let data = rows(&mut rng, [90, 1, 0, 40, 130, 3][round]);
        let all = Matrix::dense(&data, 3);
        // Begun twice, or in the middle of an utterance, or after a failure: as good as new.
        F::begin(&mut channel).unwrap();
        match round {
            1 => F::push(&mut channel, Matrix::dense(&[-1.0; 60], 3)).unwrap(),
            2 => assert!(F::push(&mut channel, Matrix::dense(&[f32::NAN; 3], 3)).is_err()),
            3 => F::cancel(&channel).unwrap(),
            _ => {}
        }
        F::begin(&mut channel).unwrap();
        assert_eq!(results::<F>(&mut channel), fresh, "nothing of the utterance before is to be seen");
        assert_eq!(F::stats(&channel).unwrap().frames, 0);
        F::push(&mut channel, all).unwrap();
        F::finish(&mut channel).unwrap();
        let expected = solo::<F>(&loops(3), &config, all);
        assert_eq!(results::<F>(&mut channel), expected);
        // Finished: no more rows, results stay, finish again changes nothing.
        state(F::push(&mut channel, all));
        state(F::push(&mut channel, Matrix { data: &[], frames: 0, dim: 3, stride: 3 }));
        state(F::pull_matrix(&mut channel, all, None).map(|_| ()));
        let mut scores = MatrixScores::new(all);
        state(F::pull(&mut channel, &mut scores, Pull::Rows, None).map(|_| ()));
        assert!(scores.asked.is_empty());
        F::finish(&mut channel).unwrap();
        assert_eq!(results::<F>(&mut channel), expected);
    }
    // A channel that has never begun has no results, and takes no rows.
    let decoder = F::decoder(&graph::<F>(&loops(3)), &config).unwrap();
    let mut new = F::channel(&decoder).unwrap();
    state(F::push(&mut new, Matrix::dense(&[-1.0; 3], 3)));
    assert_eq!(F::batch(&decoder, &mut [(&mut new, Matrix::dense(&[-1.0; 3], 3))]), [Err(Status::KOSHI_E_STATE)]);
    state(F::finish(&mut new));
    state(F::best_path(&new, true).map(|_| ()));
    state(F::partial(&new).map(|_| ()));
    state(F::lattice(&mut new, true).map(|_| ()));
    state(F::stats(&new).map(|_| ()));
    assert_eq!((F::num_frames(&new), F::reached_final(&new), F::final_relative_cost(&new)), (0, None, None));
    F::begin(&mut new).unwrap();
    assert_eq!(results::<F>(&mut new), fresh);

    // Rows for a channel of another decoder, whose graph this one does not know: that item's fault alone.
    let deep = source(
        Some(0),
        vec![(0.0, vec![arc(0, 1, 0.0, 1)]), (0.0, vec![arc(0, 2, 0.0, 2)]), (0.0, vec![arc(1, 3, 0.0, 0)])],
    );
    let (_deep, mut foreign) = open::<F>(&deep, &config);
    let mut items = [(&mut foreign, Matrix::dense(&[-1.0; 3], 3)), (&mut new, Matrix::dense(&[-1.0; 3], 3))];
    assert_eq!(F::batch(&decoder, &mut items), [Err(Status::KOSHI_E_ARGUMENT), Ok(())]);
    F::push(&mut foreign, Matrix::dense(&[-1.0; 3], 3)).unwrap();
    assert_eq!(F::best_path(&foreign, true).unwrap().olabels, [1, 2, 3]);

    // Slots of freed channels: max_channels counts those that exist.
    let few = DecoderConfig { max_channels: 2, ..config };
    let decoder = F::decoder(&graph::<F>(&loops(3)), &few).unwrap();
    for _ in 0..3 {
        let pair = [F::channel(&decoder).unwrap(), F::channel(&decoder).unwrap()];
        for _ in 0..2 {
            let Err(fault) = F::channel(&decoder) else { panic!("a third channel") };
            assert_eq!(fault.status, Status::KOSHI_E_LIMIT);
        }
        drop(pair);
    }
}

fn case_b51_create_and_destroy<F: Face>() {
    let bytes = vector(&loops(3), &Form::default());
    let data = rows(&mut Rng(51), 20);
    let expected = solo::<F>(&loops(3), &DecoderConfig::default(), Matrix::dense(&data, 3));
    for num_threads in [1, 2] {
        for round in 0..6 {
            let graph = F::graph_from_memory(&bytes).unwrap();
            let decoder = F::decoder(&graph, &DecoderConfig { num_threads, ..DecoderConfig::default() }).unwrap();
            let mut channel = F::channel(&decoder).unwrap();
            let mut other = F::channel(&decoder).unwrap();
            // Parents go first, in every order; a child keeps what it needs.
            match round {
                0 => drop((graph, decoder)),
                1 => {
                    drop(decoder);
                    drop(graph);
                }
                2 => drop(graph),
                _ => drop(decoder),
            }
            F::begin(&mut channel).unwrap();
            F::begin(&mut other).unwrap();
            F::push(&mut channel, Matrix::dense(&data, 3)).unwrap();
            F::push(&mut other, Matrix::dense(&data[..9], 3)).unwrap();
            drop(other); // in the middle of an utterance
            F::finish(&mut channel).unwrap();
            assert_eq!(results::<F>(&mut channel), expected);
        }
    }
}

fn case_b52_lattices_from_many_threads<F: Face>() {
    let mut rng = Rng(52);
    let config = DecoderConfig {
        search: SearchConfig { link_budget: 60, lattice_beam: 4.0, ..SearchConfig::default() },
        num_lanes: 3,
        num_threads: 2,
        ..DecoderConfig::default()
    };
    let utterances: Vec<Vec<f32>> = (0..8).map(|at| rows(&mut rng, 20 + 17 * at)).collect();
    let expected: Vec<Results> =
        utterances.iter().map(|data| solo::<F>(&loops(3), &config, Matrix::dense(data, 3))).collect();
    let decoder = F::decoder(&graph::<F>(&loops(3)), &config).unwrap();
    for _ in 0..5 {
        // All threads finish and fetch at the same moment; each has its channel.
        let line = std::sync::Barrier::new(8);
        thread::scope(|scope| {
            for (data, expected) in utterances.iter().zip(&expected) {
                let (decoder, line) = (&decoder, &line);
                scope.spawn(move || {
                    let mut channel = F::channel(decoder).unwrap();
                    F::begin(&mut channel).unwrap();
                    let all = Matrix::dense(data, 3);
                    for at in (0..all.frames).step_by(5) {
                        F::push(&mut channel, all.part(at, (at + 5).min(all.frames))).unwrap();
                    }
                    line.wait();
                    F::finish(&mut channel).unwrap();
                    assert_eq!(results::<F>(&mut channel), *expected);
                });
            }
        });
        // Finished on one thread, fetched on others.
        let channels: Vec<Mutex<F::Channel>> = utterances
            .iter()
            .map(|data| {
                let mut channel = F::channel(&decoder).unwrap();
                F::begin(&mut channel).unwrap();
                F::push(&mut channel, Matrix::dense(data, 3)).unwrap();
                F::finish(&mut channel).unwrap();
                Mutex::new(channel)
            })
            .collect();
        thread::scope(|scope| {
            for (channel, expected) in channels.iter().zip(&expected) {
                scope.spawn(|| assert_eq!(results::<F>(&mut channel.lock().unwrap()), *expected));
            }
        });
    }
}

fn case_b54_caller_buffer_overwritten<F: Face>() {
    let config = DecoderConfig {
        search: SearchConfig { link_budget: 40, ..SearchConfig::default() },
        ..DecoderConfig::default()
    };
    let data = rows(&mut Rng(54), 60);
    let expected = solo::<F>(&loops(3), &config, Matrix::dense(&data, 3));
    let (decoder, mut channel) = open::<F>(&loops(3), &config);
    for way in 0..4 {
        F::begin(&mut channel).unwrap();
        let mut buffer = vec![f32::NAN; 15];
        for chunk in data.chunks(15) {
            buffer.copy_from_slice(chunk);
            let rows = Matrix::dense(&buffer, 3);
            match way {
                0 => F::push(&mut channel, rows).unwrap(),
                1 => (0..5).for_each(|at| F::push(&mut channel, rows.part(at, at + 1)).unwrap()),
                2 => assert_eq!(F::batch(&decoder, &mut [(&mut channel, rows)]), [Ok(())]),
                _ => {
                    let copy = buffer.clone();
                    F::push(&mut channel, Matrix::dense(&copy, 3)).unwrap(); // and freed right after
                }
            }
            buffer.fill(f32::NAN);
            results::<F>(&mut channel);
        }
        F::finish(&mut channel).unwrap();
        assert_eq!(results::<F>(&mut channel), expected);
    }
    // A graph's bytes are not needed after the load either.
    let mut bytes = vector(&chain(2), &Form::default());
    let graph = F::graph_from_memory(&bytes).unwrap();
    bytes.fill(0xff);
    let decoder = F::decoder(&graph, &DecoderConfig::default()).unwrap();
    let mut channel = F::channel(&decoder).unwrap();
    F::begin(&mut channel).unwrap();
    F::push(&mut channel, Matrix::dense(&[-1.0; 4], 2)).unwrap();
    assert_eq!(F::best_path(&channel, true).unwrap().olabels, [1, 2]);
}
