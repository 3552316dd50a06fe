//! The corpus agrees, every checker can fail at every output, and nothing that is not a table gets a verdict.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;

type Texts = BTreeMap<String, String>;

fn corpus() -> Texts {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus/vectors");
    let entries = std::fs::read_dir(dir).expect("corpus/vectors").map(|e| e.expect("an entry").path());
    let files = entries.filter(|p| p.extension().is_some_and(|x| x == "csv"));
    files.map(|p| (p.file_name().unwrap().to_str().unwrap().to_string(), std::fs::read_to_string(&p).expect("text"))).collect()
}

fn run(texts: &Texts) -> Result<Vec<Report>, VectorError> {
    let files: Vec<File> = texts.iter().map(|(name, text)| File { name, bytes: text.as_bytes() }).collect();
    check(&files)
}

#[test]
fn every_row_of_the_corpus_agrees() {
    let reports = run(&corpus()).expect("tables");
    for r in &reports {
        assert_eq!(r.mismatches, 0, "{}: {:#?}", r.file, r.first);
        assert!(r.rows > 100, "{}: {} rows", r.file, r.rows);
    }
    let known: Vec<&str> = CHECKERS.iter().map(|c| c.file).collect();
    assert_eq!(reports.iter().map(|r| r.file).collect::<Vec<_>>(), known, "in the order of names, every file is there");
}

/// The file and what it needs, cut to its first `rows` rows; a file that another needs stays whole.
fn head(corpus: &Texts, file: &str, rows: usize) -> Texts {
    let mut texts = Texts::new();
    let cut: String = corpus[file].lines().take(rows + 1).map(|l| format!("{l}\n")).collect();
    texts.insert(file.to_string(), cut);
    texts
}

/// Another value of the same type.
fn other(cell: &str) -> String {
    match cell {
        "" => "9:9".to_string(),
        "0" => "1".to_string(),
        _ if cell.contains('@') => cell.replace("#1", "#3").replace("#2", "#1").replace("#3", "#2"),
        _ if cell.contains(':') => String::new(),
        _ => "0".to_string(),
    }
}

#[test]
fn every_output_of_every_file_can_fail() {
    let corpus = corpus();
    for c in CHECKERS {
        let names: Vec<&str> = corpus[c.file].lines().next().unwrap().split(',').collect();
        // Traces are checked against the calls of another file, all of which must have theirs.
        let needs = (c.file == "balance_dirty_pages_trace.csv").then_some("balance_dirty_pages.csv");
        let mut texts = if needs.is_some() { corpus.clone() } else { head(&corpus, c.file, 1) };
        texts.retain(|name, _| name == c.file || Some(name.as_str()) == needs);
        let good = texts[c.file].clone();
        for output in c.outputs {
            let column = names.iter().position(|n| n == output).expect("an output is a column");
            let lines = good.lines().enumerate().map(|(i, line)| {
                let mut cells: Vec<String> = line.split(',').map(str::to_string).collect();
                if i == 1 {
                    cells[column] = other(&cells[column]);
                }
                cells.join(",") + "\n"
            });
            texts.insert(c.file.to_string(), lines.collect());
            let reports = run(&texts).unwrap_or_else(|e| panic!("{}: {output}: {e}", c.file));
            let report = reports.iter().find(|r| r.file == c.file).unwrap();
            assert_eq!(report.mismatches, 1, "{}: {output}", c.file);
            assert_eq!((report.first[0].line, report.first[0].column), (2, *output), "{}", c.file);
        }
    }
}

#[test]
fn a_lost_trace_line_and_one_too_many_are_mismatches() {
    let corpus = corpus();
    let (calls, traces) = ("balance_dirty_pages.csv", "balance_dirty_pages_trace.csv");
    let mut texts: Texts = [calls, traces].map(|f| (f.to_string(), corpus[f].clone())).into();
    let mut lines: Vec<&str> = corpus[traces].lines().collect();
    lines.remove(5);
    texts.insert(traces.to_string(), lines.join("\n") + "\n");
    let lost = run(&texts).expect("tables");
    assert_eq!((lost[0].mismatches, lost[1].mismatches), (0, 1));
    texts.insert(traces.to_string(), format!("{}{}\n", corpus[traces], corpus[traces].lines().nth(1).unwrap()));
    assert_eq!(run(&texts).expect("tables")[1].mismatches, 1);
    texts.remove(calls);
    let e = run(&texts).expect_err("a trace without calls");
    assert_eq!(e.file, calls);
}

#[track_caller]
fn refused(name: &str, bytes: &[u8], line: Option<u64>, column: Option<&str>, message: &str) {
    let e = check(&[File { name, bytes }]).expect_err("no table");
    assert_eq!((e.line, e.column.as_deref()), (line, column), "{e}");
    assert!(e.to_string().contains(message), "{e}");
    assert!(!e.help.is_empty());
}

#[test]
fn what_is_not_a_table_is_refused_with_its_place() {
    let f = "dirty_poll_interval.csv";
    refused("dirty_poll_intervall.csv", b"", None, None, "no such vectors");
    refused(f, b"", None, None, "empty");
    refused(f, b"dirty_pages,thresh_pages\n1,2\n", Some(1), Some("interval_pages"), "missing");
    refused(f, b"dirty_pages,thresh_pages,interval_pages,x\n1,2,1,1\n", Some(1), Some("x"), "no such column");
    refused(f, b"dirty_pages,dirty_pages,thresh_pages,interval_pages\n1,1,2,1\n", Some(1), Some("dirty_pages"), "two columns");
    refused(f, b"dirty_pages,thresh_pages,interval_pages\n", None, None, "no row");
    refused(f, b"dirty_pages,thresh_pages,interval_pages\n1,2,1\n1,2\n", Some(3), None, "2 cells");
    refused(f, b"dirty_pages,thresh_pages,interval_pages\n1,2,1\n1,2,", Some(3), None, "no end");
    refused(f, b"dirty_pages,thresh_pages,interval_pages\n1,2,1\n1,,1\n", Some(3), Some("thresh_pages"), "``");
    refused(f, b"dirty_pages,thresh_pages,interval_pages\n1,2,x\n", Some(2), Some("interval_pages"), "`x`");
    refused(f, b"dirty_pages,thresh_pages,interval_pages\n1,18446744073709551616,1\n", Some(2), Some("thresh_pages"), "`18446744073709551616`");
    refused(f, b"dirty_pages,thresh_pages,interval_pages\n1,2,\xff\n", Some(2), None, "UTF-8");
    refused(f, b"dirty_\xffpages,thresh_pages,interval_pages\n", Some(1), None, "UTF-8");
    refused("wb_max_pause.csv", b"hz,avg_write_bandwidth_pps,wb_dirty_pages,max_pause_jiffies\n0,1,1,1\n", Some(2), Some("hz"), "`0`");
}

#[test]
fn a_sequence_with_a_hole_is_refused() {
    for f in ["fprop_sequence.csv", "cgwb_frn_sequence.csv", "memcg_rstat_sequence.csv"] {
        let text = head(&corpus(), f, 5)[f].clone();
        for gone in [1, 3] {
            let holed: String = text.lines().enumerate().filter(|l| l.0 != gone).map(|l| format!("{}\n", l.1)).collect();
            refused(f, holed.as_bytes(), Some(gone as u64 + 1), Some("step"), "does not fit");
        }
    }
}

#[test]
fn pages_that_do_not_fit_the_counter_of_a_task_are_refused() {
    let f = "balance_dirty_pages.csv";
    let text = head(&corpus(), f, 1)[f].clone();
    let mut lines = text.lines().map(|l| l.split(',').collect::<Vec<_>>());
    let (names, mut row) = (lines.next().unwrap(), lines.next().unwrap());
    row[names.iter().position(|n| *n == "pages_dirtied").unwrap()] = "2147483648";
    let text = format!("{}\n{}\n", names.join(","), row.join(","));
    refused(f, text.as_bytes(), Some(2), Some("pages_dirtied"), "`2147483648`");
}

/// Cells that make trouble where they are not expected.
const EXTREMES: [&str; 12] =
    ["", "0", "1", "2", "-1", "4294967295", "4294967296", "9223372036854775807", "-9223372036854775808", "18446744073709551615", "x", "1:2@3#1"];

#[test]
fn no_cell_makes_a_checker_panic() {
    let corpus = corpus();
    let calls = head(&corpus, "balance_dirty_pages.csv", 3);
    for c in CHECKERS {
        let text = head(&corpus, c.file, 3)[c.file].clone();
        let width = text.lines().next().unwrap().split(',').count();
        for (column, with) in (0..width).flat_map(|i| EXTREMES.map(|x| (i, x))) {
            let lines = text.lines().enumerate().map(|(i, line)| {
                let mut cells: Vec<&str> = line.split(',').collect();
                if i == 2 {
                    cells[column] = with;
                }
                cells.join(",") + "\n"
            });
            let mut texts = calls.clone();
            texts.insert(c.file.to_string(), lines.collect());
            // Whatever comes of it: a verdict or an error.
            let _ = run(&texts);
        }
    }
}

proptest! {
    #[test]
    fn no_row_makes_a_checker_panic(which in 0..CHECKERS.len(), cells in prop::collection::vec(prop::option::weighted(0.2, 0..EXTREMES.len()), 80)) {
        thread_local!(static CORPUS: Texts = corpus());
        CORPUS.with(|corpus| {
            let c = &CHECKERS[which];
            let text = head(corpus, c.file, 2)[c.file].clone();
            let lines = text.lines().enumerate().map(|(i, line)| {
                let spoil = |(cell, with): (&str, &Option<usize>)| with.map_or(cell, |w| EXTREMES[w]).to_string();
                let row: Vec<String> = if i == 1 { line.split(',').zip(&cells).map(spoil).collect() } else { vec![line.to_string()] };
                row.join(",") + "\n"
            });
            let mut texts = head(corpus, "balance_dirty_pages.csv", 3);
            texts.insert(c.file.to_string(), lines.collect());
            let _ = run(&texts);
        });
    }
}
