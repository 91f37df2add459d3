//! `<pepsi/stage.h>`, version 1.0, in Rust: the same structs with the same layout. Only what the example uses has real types; the other
//! members of the host table are pointers that keep the places of what stands behind them. The assertions at the end hold the
//! layout against the published offsets of 64-bit systems, at compile time.
#![allow(dead_code)]

use std::os::raw::{c_char, c_void};

pub const ABI_MAJOR: u16 = 1;
pub const ABI_MINOR: u16 = 0;

pub const LOAD_METADATA: u32 = 0;
pub const LOAD_HEADERS: u32 = 1;
pub const LOAD_FULL: u32 = 2;

pub const OK: i32 = 0;
pub const RETRY: i32 = -1;
pub const PERMANENT: i32 = -2;
pub const MISUSE: i32 = -3;
pub const NONE: i32 = 1;

pub const OPT_STRING: u32 = 0;
pub const OPT_LIST: u32 = 8;

pub const LOG_ERROR: i32 = 0;
pub const LOG_WARN: i32 = 1;
pub const LOG_INFO: i32 = 2;
pub const LOG_DEBUG: i32 = 3;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Abi {
    pub size: u32,
    pub major: u16,
    pub minor: u16,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Str {
    pub p: *const c_char,
    pub n: usize,
}

#[repr(C)]
pub struct OptionEntry {
    pub name: *const c_char,
    pub kind: u32,
    pub flags: u32,
    pub def: *const c_char,
    pub min: i64,
    pub max: i64,
    pub choices: *const c_char,
    pub help: *const c_char,
}

/// Opaque to modules.
#[repr(C)]
pub struct Msg {
    _private: [u8; 0],
}
#[repr(C)]
pub struct Conf {
    _private: [u8; 0],
}
#[repr(C)]
pub struct Report {
    _private: [u8; 0],
}

type Unused = *const c_void;

#[repr(C)]
pub struct Host {
    pub abi: Abi,
    pub conf_str: extern "C" fn(*const Conf, *const c_char) -> *const c_char,
    pub conf_int: extern "C" fn(*const Conf, *const c_char) -> i64,
    pub conf_multi: Unused,
    pub conf_stage_name: Unused,
    pub conf_global: extern "C" fn(*const Conf, *const c_char, *const c_char) -> *const c_char,
    pub report: extern "C" fn(*mut Report, *const c_char, *const c_char),
    pub id: extern "C" fn(*mut Msg) -> i64,
    pub received_at: Unused,
    pub mail_from: extern "C" fn(*mut Msg) -> Str,
    pub n_rcpt: extern "C" fn(*mut Msg) -> usize,
    pub rcpt: extern "C" fn(*mut Msg, usize) -> Str,
    pub state: Unused,
    pub state_get: Unused,
    pub next_stage: Unused,
    pub bounce_stage: Unused,
    pub lifetime_left: Unused,
    pub runtime_left_ms: Unused,
    pub headers: Unused,
    pub body: Unused,
    pub set_headers: Unused,
    pub set_body: Unused,
    pub set_mail_from: Unused,
    pub set_rcpt_to: extern "C" fn(*mut Msg, *const Str, usize) -> i32,
    pub merge_state: Unused,
    pub clear_state: Unused,
    pub advance: extern "C" fn(*mut Msg) -> i32,
    pub advance_to: Unused,
    pub reroute: Unused,
    pub pause: Unused,
    pub pause_with: Unused,
    pub fail: Unused,
    pub finish: Unused,
    pub finish_with: Unused,
    pub advance_or_finish: Unused,
    pub complete_success: Unused,
    pub rewrite_recipients: Unused,
    pub split_off_recipients: Unused,
    pub split_to_one_per_row: Unused,
    pub fan_out: Unused,
    pub enqueue_new: Unused,
    pub log: extern "C" fn(*mut Msg, i32, *const c_char),
    pub database: Unused,
    pub now_us: Unused,
    pub more_waiting: Unused,
}

#[repr(C)]
pub struct Stage {
    pub abi: Abi,
    pub name: *const c_char,
    pub version: *const c_char,
    pub license: *const c_char,
    pub summary: *const c_char,
    pub load_class: u32,
    pub option_size: u32,
    pub caps: u64,
    pub options: *const OptionEntry,
    pub n_options: usize,
    pub validate: Option<extern "C" fn(*const Host, *const Conf, *mut Report) -> i32>,
    pub open: Option<extern "C" fn(*const Host, *const Conf, *mut *mut c_void) -> i32>,
    pub process: Option<extern "C" fn(*mut c_void, *const Host, *mut Msg) -> i32>,
    pub process_batch:
        Option<extern "C" fn(*mut c_void, *const Host, *const *mut Msg, *mut i32, usize) -> i32>,
    pub can_fuse: Option<extern "C" fn(*mut c_void, *const Host, *mut Msg) -> i32>,
    pub close: Option<extern "C" fn(*mut c_void)>,
}

/// The descriptor and the option table hold pointers to constants only.
pub struct Shared<T>(pub T);
unsafe impl<T> Sync for Shared<T> {}
unsafe impl Sync for Stage {}

#[cfg(target_pointer_width = "64")]
const _: () = {
    use std::mem::size_of;
    assert!(size_of::<Abi>() == 8);
    assert!(size_of::<Str>() == 16);
    assert!(size_of::<OptionEntry>() == 56);
    assert!(size_of::<Host>() == 360);
    assert!(size_of::<Stage>() == 120);
};
