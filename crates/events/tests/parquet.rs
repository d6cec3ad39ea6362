//! Other programs read the Parquet files that are written here. `OCTANT_ORACLE_PYARROW` names a Python that has pyarrow
//! (`python -m venv arrow && arrow/bin/pip install pyarrow`); without one the first test prints that it was skipped.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use octant_events::ParquetScalars;
use std::process::Command;

const READER: &str = r#"
import sys
import pyarrow.parquet as parquet
table = parquet.read_table(sys.argv[1])
print(table.schema.to_string().replace('\n', '; '))
print(table.num_rows, parquet.ParquetFile(sys.argv[1]).num_row_groups, parquet.ParquetFile(sys.argv[1]).metadata.created_by)
columns = [table.column(name).to_pylist() for name in ('run', 'tag', 'step', 'wall_time', 'value')]
for index in range(0, table.num_rows, max(1, table.num_rows // 7)):
    print(*[repr(column[index]) for column in columns])
print(len(set(columns[1])), sum(columns[2]), sum(value for value in columns[4] if value == value))
"#;

fn row(index: i64, tags: i64) -> (String, String, i64, f64, f32) {
    let value = if index == 3 { f32::NAN } else { (index % 64) as f32 / 4.0 };
    let tag = format!("größe/{}", index / 9 % tags);
    (format!("run {}", index / 1000 % 3), tag, index - 2, 1.5e9 + index as f64 / 8.0, value)
}

fn written(rows: i64, tags: i64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut table = ParquetScalars::new(&mut bytes).unwrap();
    for index in 0..rows {
        let (run, tag, step, time, value) = row(index, tags);
        table.row(&run, &tag, step, time, value).unwrap();
    }
    assert_eq!(table.finish().unwrap(), rows as u64);
    bytes
}

#[test]
fn pyarrow_reads_every_row_of_one_and_of_several_row_groups() {
    let Ok(python) = std::env::var("OCTANT_ORACLE_PYARROW") else {
        println!("SKIPPED: OCTANT_ORACLE_PYARROW names no Python with pyarrow");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    for (rows, tags, groups) in [(0, 1, 0), (1, 1, 1), (50, 1, 1), (5000, 300, 1), ((1 << 20) + 5, 2, 2)] {
        let path = folder.path().join("table.parquet");
        std::fs::write(&path, written(rows, tags)).unwrap();
        let output = Command::new(&python).args(["-c", READER]).arg(&path).output().unwrap();
        assert!(output.status.success(), "{rows} rows: {}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let schema = "run: string not null; tag: string not null; step: int64 not null; wall_time: double not null; \
                      value: float not null";
        let created = concat!("octant ", env!("CARGO_PKG_VERSION"));
        let all: Vec<_> = (0..rows).map(|index| row(index, tags)).collect();
        let number = |value: f64| match () {
            () if value.is_nan() => "nan".to_string(),
            () if value.fract() == 0.0 => format!("{value:.1}"),
            () => value.to_string(),
        };
        let shown = all.iter().step_by((rows as usize / 7).max(1)).map(|(run, tag, step, time, value)| {
            format!("'{run}' '{tag}' {step} {} {}\n", number(*time), number(f64::from(*value)))
        });
        let different: std::collections::HashSet<&String> = all.iter().map(|row| &row.1).collect();
        let sum: f64 = all.iter().map(|row| f64::from(row.4)).filter(|value| !value.is_nan()).sum();
        let sum = if rows == 0 { "0".into() } else { number(sum) };
        let steps: i64 = all.iter().map(|row| row.2).sum();
        let expected = format!(
            "{schema}\n{rows} {groups} {created}\n{}{} {steps} {sum}\n",
            shown.collect::<String>(),
            different.len()
        );
        assert_eq!(text, expected);
    }
}

#[test]
fn names_that_repeat_cost_next_to_nothing() {
    let few = written(9000, 1).len();
    // Sixteen bytes of times, steps and four of the value; a name costs three bytes per run of nine.
    assert!(few < 9000 * 21, "{few} bytes for 9,000 rows");
    let bytes = written(10, 1);
    assert_eq!((&bytes[..4], &bytes[bytes.len() - 4..]), (b"PAR1".as_slice(), b"PAR1".as_slice()));
}
