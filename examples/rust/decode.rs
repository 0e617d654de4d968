// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

//! Decodes frames to files beside them, FRAME.values:
//!
//!     rustc -O decode.rs -L ~/.local/lib -l static=h5lossy_decode
//!     ./decode FRAME...

mod h5lossy_decode;

use h5lossy_decode::{decode, inspect, ByteOrder};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    for path in std::env::args().skip(1) {
        let frame = std::fs::read(&path)?;
        let info = inspect(&frame).map_err(|error| format!("{path}: {error}"))?;
        println!("{path}: {} values of {} bytes", info.count, info.raw_bytes / info.count.max(1));
        std::fs::write(format!("{path}.values"), decode(&frame, ByteOrder::AsStored)?)?;
    }
    Ok(())
}
