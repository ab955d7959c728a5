//! The inner loop of a search: the similarity of one vector to very many contiguous ones. Uses the widest
//! registers of the processor; all variants compute with integers, so that every machine finds the same.
#![allow(unsafe_code)]

/// Finds rows that pass `wanted` and whose product with the query is at least `least`; returns their
/// positions and products.
pub(super) fn scan(
    query: &[i8],
    rows: &[i8],
    least: i32,
    wanted: impl Fn(usize) -> bool,
) -> Vec<(usize, i32)> {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has the required feature; otherwise this is ordinary safe code.
        return unsafe { scan_wide(query, rows, least, wanted) };
    }
    scan_plain(query, rows, least, wanted)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn scan_wide(query: &[i8], rows: &[i8], least: i32, wanted: impl Fn(usize) -> bool) -> Vec<(usize, i32)> {
    scan_plain(query, rows, least, wanted)
}

/// The scan without special instructions.
#[inline(always)]
fn scan_plain(query: &[i8], rows: &[i8], least: i32, wanted: impl Fn(usize) -> bool) -> Vec<(usize, i32)> {
    let mut found = Vec::new();
    for (row, numbers) in rows.chunks_exact(query.len().max(1)).enumerate() {
        if !wanted(row) {
            continue;
        }
        let dot = dot(query, numbers);
        if dot >= least {
            found.push((row, dot));
        }
    }
    found
}

/// Written so that the compiler vectorizes it.
#[inline(always)]
fn dot(one: &[i8], other: &[i8]) -> i32 {
    one.iter().zip(other).map(|(one, other)| i32::from(*one) * i32::from(*other)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_and_plain_registers_find_the_same() {
        let number = |at: usize| i8::try_from((at * 7919 + at / 13) % 255).map_or(-1, |number| number - 127);
        let query: Vec<i8> = (0..384).map(number).collect();
        let rows: Vec<i8> = (5..5 + 384 * 100).map(|at| number(at * 31)).collect();
        for least in [i32::MIN, 0, 10_000] {
            let found = scan(&query, &rows, least, |row| row % 3 != 0);
            assert_eq!(found, scan_plain(&query, &rows, least, |row| row % 3 != 0));
            assert!(found.iter().all(|(row, dot)| row % 3 != 0 && *dot >= least));
        }
        assert_eq!(scan(&query, &rows, i32::MIN, |_| true).len(), 100);
    }
}
