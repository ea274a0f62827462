import assert from 'node:assert/strict';
import { describe, it, test } from 'node:test';
import { disablesUserns } from './bubblewrap.ts';
import { seccompProgram } from './seccomp.ts';

const auditTable = { x64: 0xc000_003e, arm64: 0xc000_00b7 } as const;
type Arch = keyof typeof auditTable;

/** What the kernel does with a program: the answer to a call of that number with these arguments. */
function answer(arch: Arch, call: number, args: readonly number[] = [], audit: number = auditTable[arch]): string {
  const program = seccompProgram(arch) ?? Buffer.alloc(0);
  const data = Buffer.alloc(64);
  data.writeUInt32LE(call, 0);
  data.writeUInt32LE(audit, 4);
  for (const [index, value] of args.entries()) data.writeBigUInt64LE(BigInt.asUintN(64, BigInt(value)), 16 + 8 * index);
  let loaded = 0;
  for (let at = 0; at < program.length; at += 8) {
    const code = program.readUInt16LE(at);
    const [yes, no] = [program.readUInt8(at + 2), program.readUInt8(at + 3)];
    const value = program.readUInt32LE(at + 4);
    if (code === 0x06) return value === 0x7fff_0000 ? 'allowed' : `errno ${value - 0x5_0000}`;
    if (code === 0x20) loaded = data.readUInt32LE(value);
    else {
      const holds: { readonly [code: number]: boolean } = {
        0x15: loaded === value,
        0x35: loaded >= value,
        0x45: (loaded & value) !== 0,
      };
      assert.ok(code in holds, `an instruction ${code}`);
      at += 8 * (holds[code] === true ? yes : no);
    }
  }
  throw new Error('the program ends without an answer');
}

const calls: { readonly [arch in Arch]: { readonly [call: string]: number } } = {
  x64: { read: 0, socket: 41, ioctl: 16, clone: 56, clone3: 435, unshare: 272, mount: 165, bpf: 321, keyctl: 250 },
  arm64: { read: 63, socket: 198, ioctl: 29, clone: 220, clone3: 435, unshare: 97, mount: 40, bpf: 280, keyctl: 219 },
};

for (const arch of ['x64', 'arm64'] as const) {
  describe(`the filter on ${arch}`, () => {
    const of = (call: string, ...args: number[]): string => answer(arch, calls[arch][call] ?? -1, args);

    it('lets a program read, start threads and children, and speak over the network', () => {
      assert.equal(of('read'), 'allowed');
      // As the C library starts a thread, and as it forks.
      assert.equal(of('clone', 0x3d_0f00), 'allowed');
      assert.equal(of('clone', 0x120_0011), 'allowed');
      assert.equal(of('unshare', 0x400), 'allowed');
      for (const family of [1, 2, 10, 16]) assert.equal(of('socket', family, 1), 'allowed');
      assert.equal(of('ioctl', 1, 0x5413), 'allowed');
    });

    it('refuses new namespaces, whatever the flag, and the call whose flags cannot be looked into', () => {
      for (const flag of [0x2_0000, 0x200_0000, 0x400_0000, 0x800_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000]) {
        assert.equal(of('clone', flag | 17), 'errno 1');
        assert.equal(of('unshare', flag), 'errno 1');
      }
      assert.equal(of('unshare', 0x80), 'errno 1');
      assert.equal(of('clone3'), 'errno 38');
    });

    it('refuses mounts, what reaches into the kernel, typing into a terminal, and families that nobody uses', () => {
      for (const call of ['mount', 'bpf', 'keyctl']) assert.equal(of(call), 'errno 1', call);
      assert.equal(of('ioctl', 0, 0x5412), 'errno 1');
      assert.equal(of('ioctl', 0, 0x541c), 'errno 1');
      for (const family of [17, 38, 40]) assert.equal(of('socket', family, 3), 'errno 97');
    });

    it('refuses the numbers of another machine', () => {
      assert.equal(answer(arch, calls[arch]['read'] ?? -1, [], 0x4000_0003), 'errno 38');
      assert.equal(answer(arch, 0x4000_0000), 'errno 38');
    });
  });
}

test('for a machine whose numbers are not known there is no filter', () => {
  assert.equal(seccompProgram('riscv64'), undefined);
});

test('further namespaces of users are forbidden by versions that can', () => {
  assert.deepEqual(
    ['bubblewrap 0.6.1', 'bubblewrap 0.8.0', 'bubblewrap 0.11.0', 'bubblewrap 1.0', ''].map(disablesUserns),
    [false, true, true, true, false],
  );
});
