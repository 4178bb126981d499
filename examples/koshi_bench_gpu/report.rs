//! What is printed for people, and the same figures in a file for programs.

use std::fs::File;
use std::io::{BufWriter, Write};

use koshi::lattice::Path;
use koshi::search::SearchConfig;

use crate::measure::{Cell, Latency};
use crate::options::{Options, name_of};

const COLUMNS: &str = "graph,beam,lattice_beam,max_active,acoustic_scale,measure,lanes,chunk,frames,seconds,\
                       frames_per_second,copy_in,decode,prune,reports,launches,p50_us,p99_us";

/// Where the figures go.
pub struct Report<'a> {
    options: &'a Options,
    csv: Option<BufWriter<File>>,
    costs: Option<BufWriter<File>>,
    left_out: Vec<String>,
    /// Lanes, chunk and frames a second of the setting's fastest row.
    best: Option<(u32, usize, f64)>,
}

/// A file that is written over.
pub fn create(path: &std::path::Path) -> Result<BufWriter<File>, String> {
    File::create(path).map(BufWriter::new).map_err(|error| format!("{}: {error}", path.display()))
}

impl Report<'_> {
    pub fn new(options: &Options) -> Result<Report<'_>, String> {
        let csv = options.csv.as_ref().map(|path| create(path.as_ref())).transpose()?;
        let costs = options.export.as_ref().map(|folder| create(&std::path::Path::new(folder).join("costs.txt")));
        let costs = costs.transpose()?;
        let mut report = Report { options, csv, costs, left_out: Vec::new(), best: None };
        report.line(COLUMNS)?;
        Ok(report)
    }

    /// A line of the file for programs, there at once: the program may be stopped at any time.
    fn line(&mut self, text: &str) -> Result<(), String> {
        let Some(csv) = &mut self.csv else { return Ok(()) };
        writeln!(csv, "{text}").and_then(|()| csv.flush()).map_err(|error| format!("--csv: {error}"))
    }

    pub fn setting(&mut self, search: &SearchConfig) -> Result<(), String> {
        self.best = None;
        println!("\n== beam, lattice beam, max-active, scale: {}", name_of(search));
        Ok(())
    }

    /// Words and costs of an utterance: setting, key, frames, graph cost and scaled acoustic cost, words.
    pub fn cost(&mut self, search: &SearchConfig, key: &str, path: &Path) -> Result<(), String> {
        let Some(costs) = &mut self.costs else { return Ok(()) };
        let acoustic = path.acoustic_cost * f64::from(search.acoustic_scale);
        let words: Vec<String> = path.olabels.iter().map(i32::to_string).collect();
        let frames = path.ilabels.len();
        writeln!(costs, "{} {key} {frames} {:.4} {acoustic:.4} {}", name_of(search), path.graph_cost, words.join(" "))
            .and_then(|()| costs.flush())
            .map_err(|error| format!("costs.txt: {error}"))
    }

    fn name(&self, search: &SearchConfig) -> String {
        format!("{},{}", self.options.graph.replace(',', "_"), name_of(search))
    }

    pub fn latency(&mut self, search: &SearchConfig, latency: &Latency) -> Result<(), String> {
        let Latency { pushes, push, partial } = latency;
        println!("a push of one frame, one channel, {pushes} times: median {:.0} us, 99 % {:.0} us", push[0], push[1]);
        println!("with its partial result: median {:.0} us, 99 % {:.0} us", partial[0], partial[1]);
        for (measure, times) in [("push", push), ("push_and_partial", partial)] {
            let name = self.name(search);
            self.line(&format!("{name},{measure},1,1,{pushes},,,,,,,,{:.1},{:.1}", times[0], times[1]))?;
        }
        Ok(())
    }

    pub fn sweep(&mut self, bytes_a_lane: u64) {
        println!("a lane takes {:.1} MB of device memory", bytes_a_lane as f64 / 1e6);
        println!(
            "lanes  chunk   frames/s  x real time  copy in  decode   prune  reports    host  us/frame,lane  launches"
        );
    }

    pub fn no_decoder(&mut self, lanes: u32, chunk: usize, why: &str) {
        println!("{lanes:5}  {chunk:5}  no decoder: {why}");
    }

    pub fn cell(&mut self, search: &SearchConfig, cell: &Cell) -> Result<(), String> {
        let Cell { lanes, chunk, seconds, frames, stages } = cell;
        let rate = *frames as f64 / seconds;
        let device = [stages.copy_in, stages.decode, stages.prune, stages.reports];
        let [copy_in, decode, prune, reports] = device.map(|stage| 100.0 * stage / seconds);
        let host = 100.0 - copy_in - decode - prune - reports;
        // Of the kernels' time, as if a lane had them to itself: what a frame takes while the others run.
        let a_frame = (stages.decode + stages.prune) / *frames as f64 * f64::from(*lanes) * 1e6;
        println!(
            "{lanes:5}  {chunk:5}  {rate:9.0}  {:11.1}  {copy_in:5.1} %  {decode:4.1} %  {prune:4.1} %  {reports:5.1} %  \
             {host:4.1} %  {a_frame:13.1}  {:8}",
            rate * self.options.frame_shift,
            stages.launches,
        );
        if self.best.is_none_or(|(_, _, best)| rate > best) {
            self.best = Some((*lanes, *chunk, rate));
        }
        let name = self.name(search);
        let [copy_in, decode, prune, reports] = device;
        self.line(&format!(
            "{name},sweep,{lanes},{chunk},{frames},{seconds:.4},{rate:.1},{copy_in:.5},{decode:.5},{prune:.5},\
             {reports:.5},{},,",
            stages.launches
        ))
    }

    /// The fastest row of the setting.
    pub fn best(&mut self, search: &SearchConfig) {
        if let Some((lanes, chunk, rate)) = self.best {
            let times = rate * self.options.frame_shift;
            println!(
                "saturated at {}: {rate:.0} frames/s, {times:.0} x real time ({lanes} lanes, chunk {chunk})",
                name_of(search)
            );
        }
    }

    /// Notes what there was no time for.
    pub fn left_out(&mut self, what: String) {
        self.left_out.push(what);
    }

    /// Says what is missing.
    pub fn end(self) -> Result<(), String> {
        if !self.left_out.is_empty() {
            println!("\nout of time (--budget {}), left out: {}", self.options.budget, self.left_out.join("; "));
        }
        Ok(())
    }
}
