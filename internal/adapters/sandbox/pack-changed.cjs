'use strict';
// An archive of what changed below the directory it is started in since a file was touched, for images whose find and tar
// are too small to make one: `node -e SOURCE MARK GIT_DIRS`. Files, links and empty directories; ends with 1 where something
// else is there, or grew past what a header holds. Of the directories of git, a list in JSON, what moves with each commit is
// left out.

const fs = require('node:fs');

const [mark, listed] = process.argv.slice(1);
const gitDirs = JSON.parse(listed).map((dir) => `${dir}/`);
const since = fs.lstatSync(mark, { bigint: true }).ctimeNs;
const BLOCK = 512;
const PIECE = 1 << 20;
const NAME_BYTES = 100;

function write(data) {
  for (let at = 0; at < data.length; ) {
    try {
      at += fs.writeSync(1, data, at);
    } catch (error) {
      if (error.code !== 'EAGAIN') throw error;
    }
  }
}

const octal = (value, length) => `${value.toString(8).padStart(length - 1, '0')}\0`;
const padding = (size) => Buffer.alloc((BLOCK - (size % BLOCK)) % BLOCK);

function header({ name, kind, mode = 0, size = 0, seconds = 0, link = Buffer.alloc(0) }) {
  const made = Buffer.alloc(BLOCK);
  name.copy(made, 0, 0, NAME_BYTES);
  made.write(octal(mode, 8), 100);
  made.write(octal(0, 8), 108);
  made.write(octal(0, 8), 116);
  made.write(octal(size, 12), 124);
  made.write(octal(seconds, 12), 136);
  made.write(`        ${kind}`, 148);
  link.copy(made, 157, 0, NAME_BYTES);
  made.write('ustar  \0', 257);
  made.write(octal(made.reduce((sum, byte) => sum + byte, 0), 7), 148);
  made.write(' ', 155);
  return made;
}

/** A name that does not fit stands before its entry as a file of its own. */
function long(text, kind) {
  if (text.length <= NAME_BYTES) return;
  const size = text.length + 1;
  write(Buffer.concat([header({ name: Buffer.from('././@LongLink'), kind, size }), text, Buffer.alloc(1), padding(size)]));
}

function entry(of) {
  long(of.name, 'L');
  if (of.link !== undefined) long(of.link, 'K');
  write(header(of));
}

function pack(name, stat) {
  const common = { name, mode: stat.mode & 0o7777, seconds: Math.max(0, Math.floor(stat.mtimeMs / 1000)) };
  if (stat.isSymbolicLink()) return entry({ ...common, kind: '2', link: fs.readlinkSync(name, 'buffer') });
  if (stat.isDirectory()) return entry({ ...common, name: Buffer.concat([name, Buffer.from('/')]), kind: '5' });
  // As tar does: nobody listens there any more.
  if (stat.isSocket()) return;
  if (!stat.isFile() || stat.size >= 8 ** 11) process.exit(1);
  entry({ ...common, kind: '0', size: stat.size });
  const file = fs.openSync(name, 'r');
  const piece = Buffer.alloc(PIECE);
  for (let left = stat.size; left > 0; ) {
    const read = fs.readSync(file, piece, 0, Math.min(left, PIECE), null);
    // It was cut meanwhile: what was promised of it is zeros.
    write(read === 0 ? Buffer.alloc(Math.min(left, PIECE)) : piece.subarray(0, read));
    left -= read === 0 ? Math.min(left, PIECE) : read;
  }
  fs.closeSync(file);
  write(padding(stat.size));
}

const movingPlaces = /^(HEAD|.*_HEAD|index|packed-refs|shallow|(logs|refs)\/.*)$/s;
const moves = (name) => gitDirs.some((dir) => name.startsWith(dir) && movingPlaces.test(name.slice(dir.length)));

function walk(dir) {
  const entries = fs.readdirSync(dir, { encoding: 'buffer' });
  for (const one of entries) {
    const name = Buffer.concat([dir, Buffer.from('/'), one]);
    if (name.toString() === mark || moves(name.toString())) continue;
    const stat = fs.lstatSync(name);
    const isChanged = fs.lstatSync(name, { bigint: true }).ctimeNs > since;
    const count = stat.isDirectory() ? walk(name) : 0;
    if (isChanged && count === 0) pack(name, stat);
  }
  return entries.length;
}

walk(Buffer.from('.'));
write(Buffer.alloc(2 * BLOCK));
