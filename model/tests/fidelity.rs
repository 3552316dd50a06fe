//! The table of mirrored functions agrees with the map of kernel functions and with the source.

use std::collections::BTreeSet;
use std::path::Path;
use wbmodel::linux::fidelity::{FILES, Fidelity};

fn map() -> BTreeSet<(String, String)> {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus/function-map.csv")).expect("corpus/function-map.csv");
    text.lines()
        .skip(1)
        .map(|l| {
            let mut f = l.split(',');
            let name = f.next().expect("kernel_function").to_string();
            (f.next().expect("file").to_string(), name)
        })
        .collect()
}

#[test]
fn every_function_of_the_map_has_one_row_and_no_row_is_invented() {
    let rows: Vec<(String, String)> = FILES.iter().flat_map(|(file, rows)| rows.iter().map(|r| (file.to_string(), r.0.to_string()))).collect();
    let set: BTreeSet<_> = rows.iter().cloned().collect();
    assert_eq!(rows.len(), set.len(), "a function stands twice in the table");
    let map = map();
    assert_eq!(set.difference(&map).collect::<Vec<_>>(), Vec::<&(String, String)>::new(), "rows that the map does not name");
    assert_eq!(map.difference(&set).collect::<Vec<_>>(), Vec::<&(String, String)>::new(), "functions of the map without a row");
}

#[test]
fn every_mirrored_function_exists_where_the_table_says() {
    for (file, rows) in FILES {
        for (function, fidelity, at, item) in *rows {
            if let Fidelity::Stub(why) = fidelity {
                assert!(!why.is_empty(), "{file}: {function} is left out without a reason");
                continue;
            }
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(at);
            let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{file}: {function}: {at}: {e}"));
            assert!(text.contains(&format!("fn {item}")) || text.contains(&format!("kfn!({item})")), "{file}: {function}: no {item} in {at}");
        }
    }
}
