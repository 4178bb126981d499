//! Bias costs of a raw lattice: what chooses between paths counts them, nothing else sees them, and
//! written lattices do not have them. On small random lattices.

#[path = "support/small_lattices.rs"]
mod small_lattices;

use koshi::lattice::{BiasCosts, DeterminizeConfig, LanguageModel, Lattice, RawLattice, Route};
use koshi::table::Input;
use proptest::prelude::*;
use small_lattices::raw_parts;

/// A power of two: scaled sums stay exact.
const SCALE: f32 = 0.5;

/// A raw lattice with bias costs on a coarse grid.
fn biased() -> impl Strategy<Value = RawLattice> {
    (raw_parts(), prop::collection::vec(-16i32..16, 14 + 7)).prop_map(|(parts, costs)| {
        let mut lattice = RawLattice::from_parts(parts).unwrap();
        let cost = |at: usize| costs[at] as f32 * 0.25;
        lattice.bias.arcs = (0..lattice.num_arcs()).map(cost).collect();
        let end = |state: usize| if lattice.finals[state].is_absent() { 0.0 } else { cost(14 + state) };
        lattice.bias.finals = (0..lattice.num_states()).map(end).collect();
        lattice.acoustic_scale = SCALE;
        lattice
    })
}

fn without(lattice: &RawLattice) -> RawLattice {
    RawLattice { bias: BiasCosts::default(), ..lattice.clone() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn what_chooses_between_paths_counts_them(lattice in biased(), beam in 0u32..8, word in 1i32..3) {
        let one = lattice.with_bias(1.0).unwrap();
        prop_assert!(one.bias.is_empty());
        let (apart, joined) = (Lattice::from(lattice.clone()), Lattice::from(one.clone()));

        let (ours, wanted) = (lattice.best_path(SCALE).unwrap(), one.best_path(SCALE).unwrap());
        prop_assert_eq!(&ours.olabels, &wanted.olabels);
        prop_assert_eq!((ours.graph_cost + ours.bias_cost, ours.acoustic_cost), (wanted.graph_cost, wanted.acoustic_cost));
        prop_assert_eq!(ours.total_cost(), wanted.total_cost());
        let route = apart.best_route(1.0, SCALE).unwrap();
        prop_assert_eq!(&route, &joined.best_route(1.0, SCALE).unwrap());
        let bias: f64 = route.arcs.iter().map(|&arc| f64::from(lattice.bias.arc(arc as usize))).sum();
        let end = route.last.map_or(0.0, |state| f64::from(lattice.bias.end(state as usize)));
        prop_assert_eq!(ours.bias_cost, bias + end);

        prop_assert_eq!(lattice.to_compact().unwrap(), one.to_compact().unwrap());
        let config = DeterminizeConfig { acoustic_scale: SCALE, phone_determinize: false, ..DeterminizeConfig::default() };
        let determinized = |lattice: &RawLattice| lattice.determinize(None, &config).map(|made| made.lattice);
        prop_assert_eq!(determinized(&lattice).unwrap(), determinized(&one).unwrap());
        let (ours, wanted) = (apart.nbest(5, SCALE).unwrap(), joined.nbest(5, SCALE).unwrap());
        prop_assert_eq!(&ours.posteriors, &wanted.posteriors);
        for (ours, wanted) in ours.paths.iter().zip(&wanted.paths) {
            prop_assert_eq!((&ours.olabels, ours.total_cost()), (&wanted.olabels, wanted.total_cost()));
        }
        prop_assert_eq!(apart.union(&apart).unwrap(), joined.union(&joined).unwrap());
        if !lattice.is_empty() {
            let (ours, wanted) = (apart.oracle(&[word]).unwrap(), joined.oracle(&[word]).unwrap());
            prop_assert_eq!((ours.errors(), ours.route), (wanted.errors(), wanted.route));
        }
        let text = "\\data\\\nngram 1=4\n\n\\1-grams:\n-1 </s>\n-99 <s>\n-1 1\n-2 2\n\n\\end\\\n";
        let model = LanguageModel::read(&mut Input::from_bytes("model", text), None).unwrap();
        let rescored = |lattice: &Lattice| lattice.rescore(None, Some(&model), 1.0).unwrap();
        prop_assert_eq!(rescored(&apart), rescored(&joined));

        // A pruned lattice keeps them apart.
        let pruned = lattice.prune(beam as f32 * 0.5, SCALE).unwrap();
        pruned.validate().unwrap();
        prop_assert_eq!(pruned.bias.is_empty(), pruned.is_empty());
        prop_assert_eq!(pruned.with_bias(1.0).unwrap(), one.prune(beam as f32 * 0.5, SCALE).unwrap());
        prop_assert_eq!(apart.to_raw().unwrap(), lattice);
    }

    #[test]
    fn what_writes_a_lattice_does_not_see_them(lattice in biased()) {
        prop_assert_eq!(lattice.with_bias(0.0).unwrap(), without(&lattice));
        for binary in [true, false] {
            prop_assert_eq!(
                Lattice::from(lattice.clone()).to_bytes(binary).unwrap(),
                Lattice::from(without(&lattice)).to_bytes(binary).unwrap()
            );
        }
        // Half of the bias, by way of scaling all graph costs: the same as doubling what is not bias.
        let mut scaled = lattice.clone();
        scaled.scale(2.0, 1.0).unwrap();
        prop_assert_eq!(scaled.with_bias(0.5).unwrap(), {
            let mut plain = without(&lattice);
            plain.scale(2.0, 1.0).unwrap();
            RawLattice { bias: lattice.bias.clone(), ..plain }.with_bias(1.0).unwrap()
        });
    }

    #[test]
    fn one_path_has_its_own(lattice in biased()) {
        let route: Route = Lattice::from(lattice.clone()).best_route(1.0, SCALE).unwrap();
        let linear = lattice.linear_along(&route).unwrap();
        linear.validate().unwrap();
        let (ours, wanted) = (linear.best_path(SCALE).unwrap(), lattice.best_path(SCALE).unwrap());
        prop_assert_eq!((ours.bias_cost, ours.graph_cost), (wanted.bias_cost, wanted.graph_cost));
    }
}

#[test]
fn bias_costs_that_do_not_fit_are_refused() {
    let lattice = || Lattice::from_bytes(b"0 1 1 1 2,3\n1\n").unwrap().into_raw().unwrap();
    for bias in [
        BiasCosts { arcs: vec![], finals: vec![0.0, 1.0] },
        BiasCosts { arcs: vec![1.0], finals: vec![0.0] },
        BiasCosts { arcs: vec![f32::NAN], finals: vec![0.0, 1.0] },
        BiasCosts { arcs: vec![1.0], finals: vec![0.0, f32::INFINITY] },
    ] {
        assert!(RawLattice { bias, ..lattice() }.validate().is_err());
    }
    let mut large = RawLattice { bias: BiasCosts { arcs: vec![3e38], finals: vec![0.0, 0.0] }, ..lattice() };
    large.validate().unwrap();
    for scale in [f32::NAN, f32::INFINITY, 2.0] {
        assert!(large.with_bias(scale).is_err(), "{scale}");
    }
    let before = large.clone();
    assert!(large.scale(2.0, 1.0).is_err());
    assert_eq!(large, before);
}
