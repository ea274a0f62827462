// The filter of system calls that processes of a sandbox of namespaces run under, as the program that the kernel takes:
// instructions of classic BPF, eight bytes each. It allows what it does not name. It refuses what makes new namespaces or
// mounts, what only an administrator needs, and parts of the kernel that programs do not use and that exploits do.
// A refused call fails with an error that programs know how to take; none is killed.

/** Error numbers of Linux, the same on both machines. */
const EPERM = 1;
const ENOSYS = 38;
const EAFNOSUPPORT = 97;

/** Offsets in `struct seccomp_data`; the low half of an argument, which both machines keep first. */
const NUMBER = 0;
const ARCH = 4;
const argument = (index: number): number => 16 + 8 * index;

/** `BPF_LD | BPF_W | BPF_ABS`, `BPF_JMP | BPF_JEQ`, `| BPF_JSET`, `| BPF_JGE`, `BPF_RET | BPF_K`. */
const LOAD = 0x20;
const JEQ = 0x15;
const JGE = 0x35;
const JSET = 0x45;
const RETURN = 0x06;

const ALLOW = 0x7fff_0000;
const refuse = (errno: number): number => 0x0005_0000 | errno;

/** Every flag of `clone` that makes a namespace: mount, cgroup, uts, ipc, user, pid, net. */
const CLONE_NEW = 0x7e02_0000;
/** `unshare` has one more: time. */
const UNSHARE_NEW = CLONE_NEW | 0x80;
/** Requests that put text into a terminal as if it had been typed. */
const TERMINAL_REQUESTS = [0x5412, 0x541c];
/** Unspecified, local, IPv4, IPv6, and the messages by which a program asks for its network interfaces. */
const SOCKET_FAMILIES = [0, 1, 2, 10, 16];
/** Numbers from here on are of a second interface of x86-64, by which a filter could be walked around. */
const X32 = 0x4000_0000;

/** Numbers on x64 and arm64; null where there is no such call. */
const CALLS = {
  socket: [41, 198],
  ioctl: [16, 29],
  clone: [56, 220],
  unshare: [272, 97],
} as const;

type Numbers = readonly [x64: number | null, arm64: number | null];
const REFUSED: { readonly [call: string]: Numbers } = {
  mount: [165, 40],
  umount2: [166, 39],
  pivot_root: [155, 41],
  chroot: [161, 51],
  setns: [308, 268],
  bpf: [321, 280],
  perf_event_open: [298, 241],
  userfaultfd: [323, 282],
  io_uring_setup: [425, 425],
  io_uring_enter: [426, 426],
  io_uring_register: [427, 427],
  add_key: [248, 217],
  request_key: [249, 218],
  keyctl: [250, 219],
  kexec_load: [246, 104],
  kexec_file_load: [320, 294],
  init_module: [175, 105],
  finit_module: [313, 273],
  delete_module: [176, 106],
  reboot: [169, 142],
  swapon: [167, 224],
  swapoff: [168, 225],
  acct: [163, 89],
  quotactl: [179, 60],
  quotactl_fd: [443, 443],
  syslog: [103, 116],
  settimeofday: [164, 170],
  clock_settime: [227, 112],
  adjtimex: [159, 171],
  clock_adjtime: [305, 266],
  open_by_handle_at: [304, 265],
  fanotify_init: [300, 262],
  lookup_dcookie: [212, 18],
  nfsservctl: [180, 42],
  vhangup: [153, 58],
  iopl: [172, null],
  ioperm: [173, null],
  uselib: [134, null],
  modify_ldt: [154, null],
};
/** Told as not there: programs then take the older call, which can be looked into. */
const ABSENT: { readonly [call: string]: Numbers } = {
  clone3: [435, 435],
  open_tree: [428, 428],
  move_mount: [429, 429],
  fsopen: [430, 430],
  fsconfig: [431, 431],
  fsmount: [432, 432],
  fspick: [433, 433],
  mount_setattr: [442, 442],
};

const MACHINES = {
  x64: { column: 0, audit: 0xc000_003e },
  arm64: { column: 1, audit: 0xc000_00b7 },
} as const;

interface Instruction {
  readonly code: number;
  readonly value: number;
  /** Instructions that are left out where the comparison holds, and where it does not. */
  readonly yes?: number;
  readonly no?: number;
}

/** The program for `process.arch`; undefined for a machine whose numbers are not known here. */
export function seccompProgram(arch: string): Buffer | undefined {
  if (arch !== 'x64' && arch !== 'arm64') return undefined;
  const { column, audit } = MACHINES[arch];
  const numbers = (calls: { readonly [call: string]: Numbers }): number[] =>
    Object.values(calls).flatMap((row) => row[column] ?? []);
  const instructions: Instruction[] = [
    load(ARCH),
    // A call of another machine that this one understands too means something else by its number.
    { code: JEQ, value: audit, yes: 1 },
    give(refuse(ENOSYS)),
    load(NUMBER),
    { code: JGE, value: X32, no: 1 },
    give(refuse(ENOSYS)),
    ...numbers(REFUSED).flatMap((number) => when(number, [give(refuse(EPERM))])),
    ...numbers(ABSENT).flatMap((number) => when(number, [give(refuse(ENOSYS))])),
    ...when(CALLS.clone[column], [load(argument(0)), ...refuseFlags(CLONE_NEW)]),
    ...when(CALLS.unshare[column], [load(argument(0)), ...refuseFlags(UNSHARE_NEW)]),
    ...when(CALLS.ioctl[column], [
      load(argument(1)),
      ...TERMINAL_REQUESTS.flatMap((request) => when(request, [give(refuse(EPERM))])),
      give(ALLOW),
    ]),
    ...when(CALLS.socket[column], [
      load(argument(0)),
      ...SOCKET_FAMILIES.flatMap((family) => when(family, [give(ALLOW)])),
      give(refuse(EAFNOSUPPORT)),
    ]),
    give(ALLOW),
  ];
  return Buffer.concat(instructions.map(encoded));
}

const load = (offset: number): Instruction => ({ code: LOAD, value: offset });
const give = (value: number): Instruction => ({ code: RETURN, value });

/** `then` where what was loaded last is `value`; it ends the program. */
const when = (value: number, then: readonly Instruction[]): Instruction[] => [
  { code: JEQ, value, no: then.length },
  ...then,
];

const refuseFlags = (flags: number): Instruction[] => [
  { code: JSET, value: flags, no: 1 },
  give(refuse(EPERM)),
  give(ALLOW),
];

/** `struct sock_filter`: both machines are little-endian. */
function encoded({ code, value, yes = 0, no = 0 }: Instruction): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeUInt16LE(code, 0);
  bytes.writeUInt8(yes, 2);
  bytes.writeUInt8(no, 3);
  bytes.writeUInt32LE(value >>> 0, 4);
  return bytes;
}
