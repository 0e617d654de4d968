// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

//! Frames of h5lossy in Rust, by the functions of h5lossy_decode.h.

use std::ffi::{c_char, c_int, c_void, CStr};
use std::fmt;

/// What a frame is: `h5ld_info`, whose comments say what the numbers mean.
#[repr(C)]
#[derive(Clone, Debug, Default)]
pub struct Info {
    pub count: u64,
    pub raw_bytes: u64,
    pub bound: f64,
    pub bound_kind: u32,
    pub codec: u32,
    pub value_class: u32,
    pub value_bytes: u32,
    pub big_endian: u32,
    pub rank: u32,
    pub dims: [u32; 4],
}

#[allow(dead_code)] // a program may need one of them alone
pub enum ByteOrder {
    AsStored = 0,
    Little = 1,
    Big = 2,
}

/// Why a frame was refused.
#[derive(Debug, PartialEq, Eq)]
pub struct FrameError(c_int);

extern "C" {
    fn h5ld_status_text(status: c_int) -> *const c_char;
    fn h5ld_inspect(frame: *const c_void, frame_bytes: usize, info: *mut Info) -> c_int;
    fn h5ld_decode(
        frame: *const c_void,
        frame_bytes: usize,
        order: c_int,
        values: *mut c_void,
        values_bytes: usize,
    ) -> c_int;
}

impl fmt::Display for FrameError {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        // Safety: every status has a text, which is there for ever.
        let text = unsafe { CStr::from_ptr(h5ld_status_text(self.0)) };
        formatter.write_str(&text.to_string_lossy())
    }
}

impl std::error::Error for FrameError {}

fn checked(status: c_int) -> Result<(), FrameError> {
    if status == 0 { Ok(()) } else { Err(FrameError(status)) }
}

/// Checks the header of a frame.
pub fn inspect(frame: &[u8]) -> Result<Info, FrameError> {
    let mut info = Info::default();
    // Safety: nothing is read outside of the frame, whatever it holds.
    checked(unsafe { h5ld_inspect(frame.as_ptr().cast(), frame.len(), &mut info) })?;
    Ok(info)
}

/// Checks and decodes a frame, to the bytes of its values. A frame of a few bytes may stand for 4 GiB of them: look at the
/// `raw_bytes` of `inspect` first if you do not trust its source.
pub fn decode(frame: &[u8], order: ByteOrder) -> Result<Vec<u8>, FrameError> {
    let mut values = vec![0; inspect(frame)?.raw_bytes as usize];
    // Safety: nothing is written outside of the values.
    checked(unsafe {
        h5ld_decode(frame.as_ptr().cast(), frame.len(), order as c_int, values.as_mut_ptr().cast(), values.len())
    })?;
    Ok(values)
}
