//! What the commands that copy examples have in common: how often each is copied, and to which output.

mod choice;
mod outputs;

pub use choice::{Choice, Random};
pub use outputs::Outputs;

use crate::support::exit::Failure;
use crate::support::options::Options;
use koshi::Error;

/// The options of both commands, with Kaldi's defaults.
pub struct Config {
    /// Whether outputs are chosen at random.
    pub random: bool,
    keep_proportion: f32,
    srand: i32,
}

impl Default for Config {
    fn default() -> Config {
        Config { random: false, keep_proportion: 1.0, srand: 0 }
    }
}

impl Config {
    /// Adds the options.
    pub fn register<'a>(&'a mut self, options: &mut Options<'a>) {
        options.flag("random", &mut self.random, "Write each example to an output chosen at random, not in turn");
        let doc = "Below 1, keep this proportion of the examples, chosen at random; above 1, copy each that many \
                   times, the next whole number below or above it";
        options.float("keep-proportion", &mut self.keep_proportion, doc);
        let doc = "Seed of what is random; results repeat for a seed, but are not those of Kaldi";
        options.int("srand", &mut self.srand, doc);
    }

    /// The choices to be made, one after the other.
    pub fn choice(&self) -> Result<Choice, Failure> {
        let keep = self.keep_proportion;
        if !(keep.is_finite() && keep >= 0.0) {
            return Err(Error::Config(format!("keep-proportion is {keep}; it must be 0 or more")).into());
        }
        Ok(Choice::new(self.random, f64::from(keep), Random::new(self.srand)))
    }
}
