// What an avatar's bytes say (docs/reference/compile.md#identities): PNG or JPEG by magic number, and the size from the real
// frame header, never from a thumbnail inside an application segment. Reads nothing past the bytes it is given.

export interface AvatarImage {
  readonly mediaType: 'image/png' | 'image/jpeg';
  readonly width: number;
  readonly height: number;
}

export const avatarBytesMax = 2 * 1024 * 1024;
export const avatarPixelsMin = 512;
export const avatarPixelsMax = 2000;

const pngMagic = [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a];
/** `IHDR` as the type of the first chunk, which the format requires. */
const ihdr = [0x49, 0x48, 0x44, 0x52];
const pngHeaderBytes = 33;
/** What git holds in place of a file that LFS keeps elsewhere, whatever lies in a checkout. */
const lfsPointer = [...'version https://git-lfs.github.com/spec/'].map((char) => char.charCodeAt(0));

/** The image, or null where the bytes are neither a PNG nor a JPEG with a frame. */
export function readImage(bytes: Uint8Array): AvatarImage | null {
  if (startsWith(bytes, pngMagic, 0)) return readPng(bytes);
  return startsWith(bytes, [0xff, 0xd8, 0xff], 0) ? readJpeg(bytes) : null;
}

/** What is wrong with the bytes of an avatar, or null. */
export function avatarProblem(bytes: Uint8Array): string | null {
  if (bytes.length === 0) return 'is empty';
  if (bytes.length > avatarBytesMax) return `has ${bytes.length} bytes; at most 2 MiB are accepted`;
  const image = readImage(bytes);
  if (image === null && startsWith(bytes, lfsPointer, 0))
    return 'is a pointer of Git LFS; commit the image itself, which is not fetched from there';
  if (image === null) return 'is not a PNG or JPEG image';
  const { width, height } = image;
  if (width !== height) return `is ${width}x${height} pixels; it must be square`;
  if (width >= avatarPixelsMin && width <= avatarPixelsMax) return null;
  return `is ${width}x${height} pixels; accepted are ${avatarPixelsMin}x${avatarPixelsMin} to ${avatarPixelsMax}x${avatarPixelsMax}`;
}

function startsWith(bytes: Uint8Array, magic: readonly number[], at: number): boolean {
  return magic.every((byte, index) => bytes[at + index] === byte);
}

function readPng(bytes: Uint8Array): AvatarImage | null {
  if (bytes.length < pngHeaderBytes || !startsWith(bytes, ihdr, 12)) return null;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return { mediaType: 'image/png', width: view.getUint32(16), height: view.getUint32(20) };
}

/** Start-of-frame markers: C0 to CF without the tables C4, CC and the reserved C8. */
const isFrame = (marker: number): boolean =>
  marker >= 0xc0 && marker <= 0xcf && marker !== 0xc4 && marker !== 0xc8 && marker !== 0xcc;
/** Markers without a length behind them: restarts and TEM. */
const isBare = (marker: number): boolean => marker === 0x01 || (marker >= 0xd0 && marker <= 0xd7);
const endOfImage = 0xd9;
const startOfScan = 0xda;

/** Walks the segments from one length to the next, so that what stands inside one is never taken for a frame. */
function readJpeg(bytes: Uint8Array): AvatarImage | null {
  let at = 2;
  while (at + 3 < bytes.length) {
    if (bytes[at] !== 0xff) return null;
    const marker = bytes[at + 1] ?? 0;
    if (marker === 0xff || isBare(marker)) {
      at += marker === 0xff ? 1 : 2; // A fill byte, or a marker that stands alone.
      continue;
    }
    if (marker === endOfImage || marker === startOfScan) return null;
    const length = word(bytes, at + 2);
    if (length < 2) return null;
    if (isFrame(marker)) {
      if (length < 8 || at + 8 >= bytes.length) return null;
      return { mediaType: 'image/jpeg', width: word(bytes, at + 7), height: word(bytes, at + 5) };
    }
    at += 2 + length;
  }
  return null;
}

const word = (bytes: Uint8Array, at: number): number => ((bytes[at] ?? 0) << 8) | (bytes[at + 1] ?? 0);
