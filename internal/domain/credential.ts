// What looks like a credential, by its form alone: so that a message, an excerpt or a log line never repeats one that
// somebody wrote where a reference belongs. It errs on the side of hiding; a hash or an id in hex is none.

/** Forms that issuers give their credentials, where case counts. */
const issued: readonly RegExp[] = [
  // Tokens with a prefix of their issuer. The bounds are low, so that one that was cut is still seen.
  /\b(?:gh[oprsu]_|github_pat_|gl(?:pat|dt|rt|ft|soat|cbt|ptt|imt|agent)-|xox[a-z]-|xapp-|sntry[a-z]?s?_|lin_(?:api|oauth|wh)_|npm_|pypi-|hf_|dop_v1_|doo_v1_|dp\.(?:pt|st|ct)\.|shp(?:at|ca|pa|ss)_|whsec_|sq0[a-z]{3}-|ATATT|ATCTT|svc_(?=[A-Za-z0-9_-]{0,64}[A-Z0-9]))[A-Za-z0-9_.=+/-]{10,}/,
  /\b(?:sk|rk|pk)[-_](?:[A-Za-z0-9]{1,40}[-_]){0,6}[A-Za-z0-9]{12,}/,
  /\bSG\.[A-Za-z0-9_-]{10,}(?:\.[A-Za-z0-9_-]*)?/,
  /\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{12,}/,
  /\bAIza[A-Za-z0-9_-]{20,}/,
  /\bya29\.[A-Za-z0-9_-]{10,}/,
  // A signed token of three parts.
  /\beyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_=-]+){0,2}/,
  // Keys in their text form, whole or cut.
  /-----BEGIN [A-Z ]*PRIVATE KEY-----[^-]*(?:-----END [A-Z ]*PRIVATE KEY-----)?/,
];
/** What a header or a URL carries, in any case. */
const carried: readonly RegExp[] = [
  /(?<=\b(?:Bearer|Basic)\s{1,8})[A-Za-z0-9._~+/=-]{8,}/i,
  /(?<=\b[a-z][a-z0-9+.-]{0,20}:\/\/)[^\s/?#@"']+@/i,
];
const anyOf = (forms: readonly RegExp[], flags: string): RegExp =>
  new RegExp(forms.map(({ source }) => `(?:${source})`).join('|'), flags);
const anyIssued = anyOf(issued, 'g');
const anyCarried = anyOf(carried, 'gi');

/** A run that might be random: long, and of every class of character. */
const runPattern = /[A-Za-z0-9+/_=-]{32,}/g;
/** Bits a character; English words joined by dashes have some 3.6, random base64 of this length over 4.2. */
const entropyMin = 4;

function isRandom(run: string): boolean {
  if (!(/[a-z]/.test(run) && /[A-Z]/.test(run) && /[0-9]/.test(run))) return false;
  const counts = new Map<string, number>();
  for (const letter of run) counts.set(letter, (counts.get(letter) ?? 0) + 1);
  let entropy = 0;
  for (const count of counts.values()) entropy -= (count / run.length) * Math.log2(count / run.length);
  return entropy >= entropyMin;
}

const stars = (found: string): string => '*'.repeat(found.length);

/** What a name goes on with behind what was found of it. */
const nameEnd = /[A-Za-z0-9_.-]*/y;
/**
 * A name that only begins as a token does, such as `npm_registry_token`: what these issuers make up is not two words and more. Of
 * other beginnings people make up examples of words, which are to be hidden like those that are none.
 */
const wordsPattern = /^(?:npm|pypi|hf|lin|github)(?:[-_.](?:[a-z]{1,16}[0-9]{0,4}|[0-9]{1,4})){2,}$/;

function isName(found: string, at: number, text: string): boolean {
  nameEnd.lastIndex = at + found.length;
  return wordsPattern.test(found + (nameEnd.exec(text)?.[0] ?? ''));
}

/** The text with a star for each unit of what looks like a credential, so that columns stay where they were. */
export function maskCredentials(text: string): string {
  if (text.length < 8) return text;
  return text
    .replace(anyIssued, (found, at: number) => (isName(found, at, text) ? found : stars(found)))
    .replace(anyCarried, (found) => (found.endsWith('@') ? `${stars(found.slice(0, -1))}@` : stars(found)))
    .replace(runPattern, (run) => (isRandom(run) ? stars(run) : run));
}

/** True where the text holds something that looks like a credential. */
export function looksLikeCredential(text: string): boolean {
  return maskCredentials(text) !== text;
}

/** From the word in the name of a field which says that its value is a credential, or the reference to one, to the name's end. */
const secretWord =
  /(?:secret|token|passw(?:or)?d|passphrase|api[_-]?key|access[_-]?key|private[_-]?key|credential|authorization)[\w$.-]{0,64}|\$[A-Za-z]{1,64}/gi;
/** What such a word may stand behind. */
const nameBefore = /^[\w$.-]$/;
const nameBeforeMax = 64;
/** Between a name and its value. */
const separator = /\s{0,64}[:=]\s{0,64}/y;
/** Fields that hold the name of a secret, which may be shown. */
const namesASecret = /(?:secretRef|\$secret)$/i;
const namePattern = /^[A-Za-z0-9_.-]{1,128}$/;
/** A value as a line of YAML or JSON has it: quoted, or plain up to where its map or list ends. */
const valuePattern = /"(?:[^"\\]|\\.)*"?|'(?:[^']|'')*'?|[^\s,{}[\]#&*|>"'][^,}\]#]*/y;

interface SecretKey {
  readonly name: string;
  /** Where its value begins. */
  readonly end: number;
}

/**
 * The first name of a secret's field from `from` on, with what separates it from its value. The word is looked for first, and
 * the name around it then: a name that may begin anywhere costs a hundred times as much.
 */
function secretKeyIn(line: string, from: number): SecretKey | undefined {
  secretWord.lastIndex = from;
  for (let word = secretWord.exec(line); word !== null; word = secretWord.exec(line)) {
    const after = secretWord.lastIndex;
    let start = word.index;
    const least = line[start] === '$' ? start : Math.max(from, start - nameBeforeMax);
    while (start > least && nameBefore.test(line.charAt(start - 1))) start -= 1;
    const quote = line.charAt(after);
    const isQuoted = (quote === '"' || quote === "'") && start > from && line[start - 1] === quote;
    separator.lastIndex = isQuoted ? after + 1 : after;
    if (separator.test(line)) return { name: line.slice(start, after), end: separator.lastIndex };
    secretWord.lastIndex = word.index + 1;
  }
  return undefined;
}

/**
 * One line of a document as it may be shown: what looks like a credential is starred, and so is the plain value of a field
 * whose name says that it is one (`token: …`), unless it is the name of a secret. Takes linear time; the length stays.
 */
export function maskLine(line: string): string {
  let shown = '';
  let from = 0;
  for (let key = secretKeyIn(line, 0); key !== undefined; ) {
    valuePattern.lastIndex = key.end;
    const value = valuePattern.exec(line)?.[0].trimEnd() ?? '';
    let next = key.end;
    if (value !== '' && !isPlain(key.name, value)) {
      shown += line.slice(from, key.end) + stars(value);
      next = from = key.end + value.length;
    }
    key = secretKeyIn(line, next);
  }
  return maskCredentials(shown + line.slice(from));
}

/** True for a value that may stand: the name of a secret, a flag, or how much a capability grants. */
function isPlain(key: string, value: string): boolean {
  const bare = value.replace(/^["']|["']$/g, '');
  if (/^(?:true|false|null|none|read|write|~|)$/.test(bare)) return true;
  return namesASecret.test(key) && namePattern.test(bare);
}
