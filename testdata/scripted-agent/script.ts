// The scripted agent's script: lines of a prompt that begin with `!` and a word of this list, in order. A prompt without
// any is echoed. Parsing only; `agent.ts` does what they say.

export type Directive =
  | {
      readonly kind: 'say' | 'think' | 'ask' | 'fail' | 'env' | 'read' | 'exec' | 'plan' | 'model' | 'exit';
      readonly text: string;
    }
  | { readonly kind: 'write'; readonly file: string; readonly text: string }
  | { readonly kind: 'sleep' | 'big' | 'flood'; readonly count: number }
  | { readonly kind: 'stream'; readonly count: number; readonly everyMs: number }
  | { readonly kind: 'call'; readonly alias: string; readonly tool: string; readonly input: string }
  | {
      readonly kind:
        | 'crash'
        | 'forget'
        | 'garbage'
        | 'half'
        | 'hang'
        | 'history'
        | 'orphan'
        | 'system'
        | 'config'
        | 'tools'
        | 'unknown';
    };

const TEXT = ['say', 'think', 'ask', 'fail', 'env', 'read', 'exec', 'plan', 'model', 'exit'] as const;
const COUNT = ['sleep', 'big', 'flood'] as const;
const BARE = [
  'crash',
  'forget',
  'garbage',
  'half',
  'hang',
  'history',
  'orphan',
  'system',
  'config',
  'tools',
  'unknown',
] as const;

const isOf = <T extends string>(list: readonly T[], word: string): word is T =>
  (list as readonly string[]).includes(word);

/** The directive of one line; undefined where it is none. */
function parseLine(line: string): Directive | undefined {
  const [, word = '', rest = ''] = /^\s*!([a-z]+)(?:[ \t]+(.*))?$/.exec(line) ?? [];
  const text = rest.trimEnd();
  if (isOf(TEXT, word)) return { kind: word, text };
  if (isOf(COUNT, word)) return { kind: word, count: Number.parseInt(text, 10) || 0 };
  if (isOf(BARE, word)) return { kind: word };
  if (word === 'stream') {
    const [count = '10', everyMs = '5'] = text.split(/\s+/);
    return { kind: 'stream', count: Number.parseInt(count, 10) || 0, everyMs: Number.parseInt(everyMs, 10) || 0 };
  }
  if (word === 'write') {
    const [, file = '', written = ''] = /^(\S+)\s?(.*)$/.exec(text) ?? [];
    return { kind: 'write', file, text: written };
  }
  if (word === 'call') {
    const [, alias = '', tool = '', input = ''] = /^(\S+)\s+(\S+)\s*(.*)$/.exec(text) ?? [];
    return { kind: 'call', alias, tool, input: input === '' ? '{}' : input };
  }
  return undefined;
}

/** Every directive of the prompt's blocks, in order. */
export const parseScript = (blocks: readonly string[]): Directive[] =>
  blocks.flatMap((block) => block.split(/\r?\n/).flatMap((line) => parseLine(line) ?? []));

/** What is answered to a prompt without a script. */
export const echoOf = (blocks: readonly string[]): string =>
  blocks.length === 1
    ? `echo: ${blocks[0]}`
    : blocks.map((block, index) => `echo ${index + 1}/${blocks.length}: ${block}`).join('\n');
