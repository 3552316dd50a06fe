//! Plots as SVG: what a simulation did over time, and what a sweep has shown.

use crate::problem::Problem;
use crate::report::SweepLine;
use crate::run;
use crate::series::tasks;
use plotters::prelude::*;
use std::path::Path;
use wbexplore::simulate::Axis;
use wbmodel::scenarios::Scenario;
use wbmodel::sim::{Output, Sample};

/// Size of a picture, in pixels.
const SIZE: (u32, u32) = (1000, 480);
/// Colours of lines, in order.
const COLOURS: [RGBColor; 8] = [
    RGBColor(31, 119, 180),
    RGBColor(214, 39, 40),
    RGBColor(44, 160, 44),
    RGBColor(255, 127, 14),
    RGBColor(148, 103, 189),
    RGBColor(140, 86, 75),
    RGBColor(227, 119, 194),
    RGBColor(127, 127, 127),
];

/// A line of a chart.
struct Line {
    label: String,
    points: Vec<(f64, f64)>,
}

/// A chart: lines over a common axis, and marks at its foot.
struct Chart<'a> {
    title: String,
    x: &'a str,
    y: &'a str,
    lines: Vec<Line>,
    /// Places on the x axis.
    marks: Vec<f64>,
    /// What stands at whole numbers of the x axis, if it is not a number.
    names: Vec<String>,
    /// The x axis is logarithmic, from [`LOG_LEAST`] on.
    log: bool,
}

/// Where a logarithmic axis begins: a microsecond, in milliseconds.
const LOG_LEAST: f64 = 1e-3;

impl Chart<'_> {
    /// The picture, or why it can't be drawn.
    fn svg(&self) -> Result<String, String> {
        let mut text = String::new();
        self.draw(&mut text).map_err(|e| e.to_string())?;
        Ok(text)
    }

    fn draw(&self, text: &mut String) -> Result<(), Box<dyn std::error::Error + '_>> {
        let points = || self.lines.iter().flat_map(|l| &l.points);
        let most = |of: fn(&(f64, f64)) -> f64| points().map(of).filter(|x| x.is_finite()).fold(0.0_f64, f64::max);
        let place = |x: f64| if self.log { x.max(LOG_LEAST).log10() } else { x };
        let x_min = if self.log { LOG_LEAST.log10() } else { 0.0 };
        let (x_max, y_max) = (place(most(|p| p.0)).max(x_min + 1e-9), most(|p| p.1).max(1e-9) * 1.05);
        let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let mut builder = ChartBuilder::on(&root);
        builder.caption(&self.title, ("sans-serif", 18)).margin(14).x_label_area_size(44).y_label_area_size(84);
        let mut chart = builder.build_cartesian_2d(x_min..x_max, 0.0..y_max)?;
        let named = |x: &f64| {
            let whole = (x.round() - x).abs() < 1e-6;
            if whole { self.names.get(x.round() as usize).cloned().unwrap_or_default() } else { String::new() }
        };
        let plain = |x: &f64| axis_number(*x);
        let power = |x: &f64| if (x.round() - x).abs() < 1e-6 { axis_number(10f64.powf(*x)) } else { String::new() };
        let mut mesh = chart.configure_mesh();
        mesh.x_desc(self.x).y_desc(self.y).y_label_formatter(&plain).light_line_style(WHITE);
        match (self.log, self.names.is_empty()) {
            (true, _) => mesh.x_label_formatter(&power).draw()?,
            (false, true) => mesh.x_label_formatter(&plain).draw()?,
            (false, false) => mesh.x_label_formatter(&named).x_labels(self.names.len() * 2).draw()?,
        }
        for (i, l) in self.lines.iter().enumerate() {
            let colour = COLOURS[i % COLOURS.len()];
            let points = l.points.iter().filter(|p| p.0.is_finite() && p.1.is_finite()).map(|p| (place(p.0), p.1));
            let drawn = chart.draw_series(LineSeries::new(points, colour.stroke_width(2)))?;
            drawn.label(&l.label).legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 18, y)], colour.stroke_width(2)));
        }
        chart.draw_series(self.marks.iter().map(|x| PathElement::new(vec![(place(*x), 0.0), (place(*x), y_max * 0.03)], BLACK)))?;
        chart.configure_series_labels().background_style(WHITE.mix(0.8)).border_style(BLACK.mix(0.3)).position(SeriesLabelPosition::UpperRight).draw()?;
        root.present()?;
        Ok(())
    }
}

/// A number for an axis.
fn axis_number(x: f64) -> String {
    let text = if x.abs() >= 100.0 { format!("{x:.0}") } else { format!("{x:.2}") };
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_string() } else { text }
}

fn draw(dir: &Path, name: &str, chart: &Chart<'_>) -> Result<(), Problem> {
    let svg = chart.svg().map_err(|e| Problem::new(format!("{name}: cannot be drawn: {e}"), "--series writes the numbers"))?;
    run::write_into(dir, &format!("{name}.svg"), &svg, "--plot")?;
    Ok(())
}

fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

/// Writes the plots of one run: dirty pages against limits, pauses, lag, latencies, device.
pub fn simulation(dir: &Path, name: &str, scenario: &Scenario, output: &Output) -> Result<(), Problem> {
    let over_time = |label: &str, of: fn(&Sample) -> u64| Line {
        label: label.to_string(),
        points: output.samples.iter().map(|s| (seconds(s.at_us), of(s) as f64 / 256.0)).collect(),
    };
    let setpoint = |s: &Sample| u64::midpoint(s.memcg_freerun, s.memcg_limit);
    let flushes: Vec<f64> = output.root_flushes.iter().map(|us| seconds(*us)).collect();
    let chart = |what: &str, x: &'static str, y: &'static str, lines: Vec<Line>, marks: Vec<f64>| Chart {
        title: format!("{name}: {what}"),
        x,
        y,
        lines,
        marks,
        names: Vec::new(),
        log: false,
    };
    let memcg = vec![
        over_time("dirty and writeback", |s| s.memcg_dirty),
        over_time("as it is read", |s| s.memcg_dirty_read),
        over_time("limit", |s| s.memcg_limit),
        over_time("setpoint", setpoint),
        over_time("freerun", |s| s.memcg_freerun),
    ];
    let machine = vec![
        over_time("dirty and writeback", |s| s.dirty + s.writeback),
        over_time("writeback", |s| s.writeback),
        over_time("limit", |s| s.limit),
        over_time("setpoint", |s| u64::midpoint(s.freerun, s.limit)),
        over_time("freerun", |s| s.freerun),
    ];
    draw(dir, &format!("{name}-memcg"), &chart("the watched memcg; marks: statistics flushes of the root", "s", "MiB", memcg, flushes.clone()))?;
    draw(dir, &format!("{name}-machine"), &chart("the machine; marks: statistics flushes of the root", "s", "MiB", machine, flushes.clone()))?;

    let of_tasks = |points: fn(&wbmodel::sim::WriterOutput) -> Vec<(f64, f64)>| -> Vec<Line> {
        tasks(scenario).zip(&output.writers).map(|(label, w)| Line { label: label.to_string(), points: points(w) }).filter(|l| !l.points.is_empty()).collect()
    };
    // A pause stands where it begins; between pauses the line lies on the axis.
    let pauses = of_tasks(|w| w.pauses.iter().flat_map(|&(at, us)| [(seconds(at), 0.0), (seconds(at), us as f64 / 1e3), (seconds(at + us), 0.0)]).collect());
    draw(dir, &format!("{name}-pauses"), &chart("pauses; marks: statistics flushes of the root", "s", "ms", pauses, flushes))?;
    let lag = of_tasks(|w| w.lag_ms.iter().enumerate().map(|(s, ms)| (s as f64, *ms)).collect());
    draw(dir, &format!("{name}-lag"), &chart("greatest lag in each second", "s", "ms", lag, Vec::new()))?;
    // The times are a thinned sample; the longest write is known besides.
    let cdf = of_tasks(|w| {
        let n = w.latencies_us.len() as f64;
        let sampled = w.latencies_us.iter().enumerate().map(|(i, us)| (*us as f64 / 1e3, (i + 1) as f64 / n));
        sampled.chain(w.metrics.get("max_write_ms").map(|ms| (*ms, 1.0))).collect()
    });
    let latency = Chart { log: true, ..chart("share of writes that took at most so long", "ms", "share", cdf, Vec::new()) };
    draw(dir, &format!("{name}-latency"), &latency)?;
    let bandwidth: u64 = scenario.disks.iter().map(|d| d.write_bps).sum();
    let busy = output.samples.windows(2).map(|w| {
        let could = seconds(w[1].at_us - w[0].at_us) * bandwidth as f64;
        (seconds(w[1].at_us), if could > 0.0 { w[1].device_bytes as f64 / could * 100.0 } else { 0.0 })
    });
    let device = vec![Line { label: "bytes taken, of what the disks can".to_string(), points: busy.collect() }];
    draw(dir, &format!("{name}-device"), &chart("device", "s", "%", device, Vec::new()))
}

/// Writes the plot of a sweep: the first property along the axis, one line for each value of the second.
pub fn sweep(dir: &Path, name: &str, over: &[Axis], lines: &[SweepLine]) -> Result<(), Problem> {
    let Some(first) = over.first() else { return Ok(()) };
    let place = |l: &SweepLine| first.values.iter().position(|v| l.over.first().is_some_and(|o| o.1 == *v)).unwrap_or(0) as f64;
    let labels: Vec<String> = over.get(1).map_or_else(|| vec![String::new()], |a| a.values.clone());
    let of = |label: &String| Line {
        label: over.get(1).map_or_else(|| "median".to_string(), |a| format!("{} = {label}", a.path)),
        points: lines.iter().filter(|l| l.over.get(1).is_none_or(|o| o.1 == *label)).map(|l| (place(l), l.value)).collect(),
    };
    let chart = Chart {
        title: name.to_string(),
        x: &first.path,
        y: lines.first().map_or("", |l| &l.metric),
        lines: labels.iter().map(of).collect(),
        marks: Vec::new(),
        names: first.values.clone(),
        log: false,
    };
    draw(dir, name, &chart)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_is_an_svg_with_its_words() {
        let lines = vec![Line { label: "one".into(), points: vec![(0.0, 1.0), (1.0, f64::NAN), (2.0, 3.0)] }];
        let chart = Chart { title: "a title".into(), x: "s", y: "MiB", lines, marks: vec![1.0], names: Vec::new(), log: false };
        let svg = chart.svg().unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        for word in ["a title", "one", "MiB"] {
            assert!(svg.contains(word), "{word}");
        }
        assert_eq!(svg, chart.svg().unwrap());
    }

    #[test]
    fn an_empty_chart_can_be_drawn() {
        for log in [false, true] {
            Chart { title: String::new(), x: "", y: "", lines: Vec::new(), marks: Vec::new(), names: Vec::new(), log }.svg().unwrap();
        }
    }

    #[test]
    fn a_logarithmic_axis_is_named_at_powers_of_ten() {
        let lines = vec![Line { label: "one".into(), points: vec![(0.0, 0.5), (0.4, 0.9), (4000.0, 1.0)] }];
        let chart = Chart { title: String::new(), x: "ms", y: "", lines, marks: Vec::new(), names: Vec::new(), log: true };
        let svg = chart.svg().unwrap();
        for label in ["\n1\n", "\n10\n", "\n1000\n"] {
            assert!(svg.contains(label), "{label}");
        }
    }

    #[test]
    fn numbers_of_axes_are_short() {
        assert_eq!([0.0, 0.25, 1.5, 20.0, 1234.5].map(axis_number), ["0", "0.25", "1.5", "20", "1234"]);
    }
}
