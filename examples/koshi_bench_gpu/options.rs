//! What is measured, and how long: the command's arguments.

use std::path::Path;
use std::time::{Duration, Instant};

use koshi::decoder::{BackendChoice, DecoderConfig};
use koshi::search::SearchConfig;

/// How the program is called.
pub const USAGE: &str = "\
usage: koshi_bench_gpu [--OPTION VALUE]...
  --graph FILE --model FILE --likes RSPECIFIER   what is decoded (the prompts of examples/data)
  --settings BEAM,LATTICE-BEAM,MAX-ACTIVE,SCALE[;...]  one sweep each (13,6,7000,0.083333;15,8,10000,0.066667)
  --lanes N,N,...    lanes of a decoder, ascending (1,32,128,256,512,1024)
  --chunks N,N,...   frames of a push (1,16,64)
  --seconds S        that a row of the table is measured for (3)
  --budget S         that all of it may take; what does not fit is left out, and said (300)
  --frame-shift S    of a row, for the factor over real time (0.01)
  --utterances N     only the first N utterances (all)
  --frames N         only the first N frames of each (all)
  --device N         which GPU (0)
  --threads N        of the host (all)
  --csv FILE         the same figures for programs
  --export FOLDER    what another decoder needs to be measured beside this one: scores, columns, words and costs";

/// What is measured.
pub struct Options {
    pub graph: String,
    pub model: String,
    pub likes: String,
    pub settings: Vec<SearchConfig>,
    pub lanes: Vec<u32>,
    pub chunks: Vec<usize>,
    pub seconds: f64,
    pub budget: f64,
    pub frame_shift: f64,
    pub utterances: usize,
    pub frames: usize,
    pub device: u32,
    pub threads: u32,
    pub csv: Option<String>,
    pub export: Option<String>,
}

impl Options {
    /// Reads arguments, without the program's name.
    pub fn read(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/data/prompts");
        let file = |name: &str| data.join(name).display().to_string();
        let mut options = Options {
            graph: file("HCLG.fst"),
            model: file("trans.mdl"),
            likes: format!("ark:{}", file("loglikes.ark")),
            settings: settings("13,6,7000,0.083333;15,8,10000,0.066667").unwrap_or_default(),
            lanes: vec![1, 32, 128, 256, 512, 1024],
            chunks: vec![1, 16, 64],
            seconds: 3.0,
            budget: 300.0,
            frame_shift: 0.01,
            utterances: usize::MAX,
            frames: usize::MAX,
            device: 0,
            threads: DecoderConfig::default().num_threads,
            csv: None,
            export: None,
        };
        while let Some(name) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("{name} needs a value\n{USAGE}"))?;
            let bad = || format!("{name} {value}: cannot be read\n{USAGE}");
            match name.as_str() {
                "--graph" => options.graph = value,
                "--model" => options.model = value,
                "--likes" => options.likes = value,
                "--settings" => options.settings = settings(&value).ok_or_else(bad)?,
                "--lanes" => options.lanes = counts(&value).ok_or_else(bad)?,
                "--chunks" => options.chunks = counts(&value).ok_or_else(bad)?,
                "--seconds" => options.seconds = positive(&value).ok_or_else(bad)?,
                "--budget" => options.budget = positive(&value).ok_or_else(bad)?,
                "--frame-shift" => options.frame_shift = positive(&value).ok_or_else(bad)?,
                "--utterances" => options.utterances = value.parse().map_err(|_| bad())?,
                "--frames" => options.frames = value.parse().map_err(|_| bad())?,
                "--device" => options.device = value.parse().map_err(|_| bad())?,
                "--threads" => options.threads = value.parse().map_err(|_| bad())?,
                "--csv" => options.csv = Some(value),
                "--export" => options.export = Some(value),
                _ => return Err(format!("{name} is not an option\n{USAGE}")),
            }
        }
        Ok(options)
    }

    /// A decoder's options at one setting.
    pub fn decoder(&self, search: &SearchConfig, backend: BackendChoice, num_lanes: u32) -> DecoderConfig {
        let (device, num_threads, frame_shift) = (self.device, self.threads, self.frame_shift);
        DecoderConfig { search: *search, backend, device, num_lanes, num_threads, frame_shift, ..Default::default() }
    }
}

/// Numbers of 1 or more with commas between them.
fn counts<T: std::str::FromStr + PartialOrd + From<u8>>(text: &str) -> Option<Vec<T>> {
    text.split(',').map(|number| number.parse().ok().filter(|count| *count >= T::from(1))).collect()
}

fn positive(text: &str) -> Option<f64> {
    text.parse().ok().filter(|value: &f64| value.is_finite() && *value > 0.0)
}

fn settings(text: &str) -> Option<Vec<SearchConfig>> {
    let one = |text: &str| {
        let mut values = text.split(',');
        let mut value = || values.next();
        let search = SearchConfig {
            beam: value()?.parse().ok()?,
            lattice_beam: value()?.parse().ok()?,
            max_active: value()?.parse().ok()?,
            acoustic_scale: value()?.parse().ok()?,
            ..SearchConfig::default()
        };
        values.next().is_none().then_some(search)
    };
    text.split(';').map(one).collect()
}

/// The setting as it is written in an option.
pub fn name_of(search: &SearchConfig) -> String {
    format!("{},{},{},{}", search.beam, search.lattice_beam, search.max_active, search.acoustic_scale)
}

/// A part of the time that the program has.
#[derive(Clone, Copy)]
pub struct Clock {
    end: Instant,
}

impl Clock {
    /// `seconds` from now.
    pub fn new(seconds: f64) -> Clock {
        Clock { end: Instant::now() + Duration::from_secs_f64(seconds) }
    }

    /// Seconds that are left; 0 if none are.
    pub fn left(self) -> f64 {
        self.end.saturating_duration_since(Instant::now()).as_secs_f64()
    }

    /// A share of what is left, at most `most` seconds.
    pub fn part(self, share: f64, most: f64) -> Clock {
        Clock::new((self.left() * share).min(most))
    }

    pub fn is_over(self) -> bool {
        self.left() == 0.0
    }
}
