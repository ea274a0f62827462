// What svcd.hostile.fuzz.test.ts has a session write and ask: lines of a harness, calls of its model, calls of tools.

import { filled, listOf, mebibyte } from './hostile-testkit.ts';

const update = (more: string): string =>
  `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"$S","update":{${more}}}}`;
const said = update('"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"$X"}');
const frame = 16 * mebibyte - 1_000;
/** What one line may hold, without what else it holds. */
const values = 199_900;

/** What a harness writes; see testdata/raw-agent. */
export const harnessLines: { readonly [what: string]: object } = {
  'one long line of text': { lines: [said], big: frame },
  'one long line of new lines': { lines: [said], big: frame, of: '\\n' },
  'one long line of escapes': { lines: [said], big: frame, of: '\\u0000' },
  'one long line of lists': {
    lines: [update('"sessionUpdate":"agent_message_chunk","content":[$X0]')],
    big: frame,
    of: '[],',
  },
  'one long line of nesting': {
    lines: [update('"sessionUpdate":"agent_message_chunk","content":$X')],
    big: frame,
    of: '[',
  },
  'one long line of keys': {
    lines: [update('"sessionUpdate":"agent_message_chunk","content":{$X"z":0}')],
    big: frame,
    of: '"k":0,',
  },
  'one long thought': { lines: [said.replace('message', 'thought')], big: frame },
  'a hundred thousand small updates': { lines: [said], big: 5, repeat: 100_000 },
  'many updates of a mebibyte': { lines: [said], big: mebibyte, repeat: 60 },
  'a large plan': {
    lines: [update('"sessionUpdate":"plan","entries":[$X{"content":"z","priority":"low","status":"pending"}]')],
    big: frame,
    of: '{"content":"x","priority":"low","status":"pending"},',
  },
  'a large call of a tool': {
    lines: [
      update(
        '"sessionUpdate":"tool_call","toolCallId":"c","title":"t","kind":"other","status":"pending","rawInput":{"a":"$X"}',
      ),
    ],
    big: frame,
  },
  'a call of a tool with a large list': {
    lines: [
      update(
        '"sessionUpdate":"tool_call","toolCallId":"c","title":"t","kind":"other","status":"pending","rawInput":[$X0]',
      ),
    ],
    big: frame,
    of: '{"a":0},',
  },
  'a call of a tool with as many keys as a line may have': {
    lines: [
      update(
        '"sessionUpdate":"tool_call","toolCallId":"c","title":"t","kind":"other","status":"pending","rawInput":{$K"z":0}',
      ),
    ],
    keys: values,
  },
  'a call of a tool that nests as deeply as a line may': {
    lines: [
      update(
        '"sessionUpdate":"tool_call","toolCallId":"c","title":"t","kind":"other","status":"pending","rawInput":$D',
      ),
    ],
    depth: values,
  },
  'a call of a tool with more keys': {
    lines: [
      update(
        '"sessionUpdate":"tool_call","toolCallId":"c","title":"t","kind":"other","status":"pending","rawInput":{$K"z":0}',
      ),
    ],
    keys: 1_000_000,
  },
  'a large title': {
    lines: [update('"sessionUpdate":"tool_call","toolCallId":"c","title":"$X","kind":"other","status":"pending"')],
    big: frame,
  },
  'a large identifier': {
    lines: [update('"sessionUpdate":"tool_call","toolCallId":"$X","title":"t","kind":"other","status":"pending"')],
    big: frame,
  },
  'a hundred thousand open calls': {
    lines: [update('"sessionUpdate":"tool_call","toolCallId":"c$N","title":"t","kind":"other","status":"pending"')],
    repeat: 100_000,
  },
  'a large result': {
    lines: [
      update('"sessionUpdate":"tool_call","toolCallId":"c","title":"t","kind":"other","status":"pending"'),
      update(
        '"sessionUpdate":"tool_call_update","toolCallId":"c","status":"completed","content":[{"type":"content","content":{"type":"text","text":"$X"}}]',
      ),
    ],
    big: frame,
  },
  'a result of many parts': {
    lines: [
      update('"sessionUpdate":"tool_call","toolCallId":"c","title":"t","kind":"other","status":"pending"'),
      update(
        '"sessionUpdate":"tool_call_update","toolCallId":"c","status":"completed","content":[$X{"type":"content","content":{"type":"text","text":"z"}}]',
      ),
    ],
    big: frame,
    of: '{"type":"content","content":{"type":"text","text":"x"}},',
  },
  'thousands of requests': {
    lines: ['{"jsonrpc":"2.0","id":"r$N","method":"fs/read_text_file","params":{"sessionId":"$S","path":"/etc/$X"}}'],
    big: 100,
    repeat: 20_000,
  },
  'a request of a mebibyte': { lines: ['{"jsonrpc":"2.0","id":"r","method":"$X","params":{}}'], big: frame },
  'a request for permission of a mebibyte': {
    lines: [
      '{"jsonrpc":"2.0","id":"p$N","method":"session/request_permission","params":{"sessionId":"$S","toolCall":{"toolCallId":"c","title":"$X"},"options":[{"optionId":"a","name":"a","kind":"allow_once"}]}}',
    ],
    big: mebibyte,
    repeat: 10,
  },
  'a request for permission that nests': {
    lines: [
      '{"jsonrpc":"2.0","id":"p","method":"session/request_permission","params":{"sessionId":"$S","toolCall":{"toolCallId":"c","title":"t","rawInput":$D},"options":[{"optionId":"a","name":"a","kind":"allow_once"}]}}',
    ],
    depth: values,
  },
  'an answer whose reason nests as deeply as a line may': {
    lines: ['{"jsonrpc":"2.0","id":$I,"result":{"stopReason":$D}}'],
    depth: values,
  },
  'an error whose reason repeats itself, as its message does': {
    lines: ['{"jsonrpc":"2.0","id":$I,"error":{"code":-32603,"message":"$X$X$X$X","data":{"details":"$Xb$X"}}}'],
    big: 80_000,
    of: 'a',
  },
  'calls that give very many secrets': {
    lines: [
      update('"sessionUpdate":"tool_call","toolCallId":"c$N","title":"svc_secrets_create","rawInput":[$L{}]'),
      said,
    ],
    keys: 2_000,
    repeat: 40,
  },
  'a secret that repeats itself, and a text of it': {
    lines: [
      update('"sessionUpdate":"tool_call","toolCallId":"c","title":"svc_secrets_create","rawInput":{"value":"$Xb"}'),
      said.replace('$X', '$Xc'),
    ],
    big: 65_000,
    of: 'a',
  },
  'answers to nothing': { lines: ['{"jsonrpc":"2.0","id":"$N","result":"$X"}'], big: 200, repeat: 100_000 },
  'a line without an end': { lines: ['$X'], big: 3 * frame },
  'no JSON': { lines: ['$X'], big: frame, of: 'é' },
  'empty lines': { lines: ['$X'], big: 8 * mebibyte, of: '\n' },
};

const asked = (content: string): string =>
  `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":${content}}]}`;
const model = 32 * mebibyte - 1_000;

/** Parts of a message of 40 KB each, as many as fit. */
function wholeTexts(): { readonly of: string; readonly big: number } {
  const of = `{"type":"text","text":"${'a line \u00e9 \\"of\\" text that says little\\n'.repeat(1_000)}"},`;
  return { of, big: of.length * Math.floor(model / Buffer.byteLength(of)) };
}

/** What a harness asks its model, as large as the gateway takes; see testdata/raw-agent. */
export const modelCalls: { readonly [what: string]: object } = {
  'one text of 32 MiB': { lines: [], post: asked('"$X"'), big: model },
  'one text of 32 MiB of escapes': { lines: [], post: asked('"$X"'), big: model, of: '\\n' },
  'one text of 32 MiB beyond Latin': { lines: [], post: asked('"$X"'), big: model / 2, of: 'ф' },
  'a picture of 32 MiB': { lines: [], post: asked('[{"type":"image","source":{"data":"$X"}}]'), big: model },
  'texts of 32 MiB': { lines: [], post: asked('[$X{"type":"text","text":"z"}]'), ...wholeTexts() },
  'short texts of 32 MiB': { lines: [], post: asked('[$X"z"]'), big: model, of: `"${'x'.repeat(200)}",` },
  'a call of too many values': { lines: [], post: asked('[$X0]'), big: model, of: '[],' },
};

const call = (name: string, input: string): string =>
  `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"${name}","arguments":${input}}}`;
const body = mebibyte - 4_000;

/** What a session sends to its tools. */
export const toolCalls: { readonly [what: string]: () => string } = {
  'a long message to another session': () =>
    call('svc_send_message', `{"sessionId":"01890000-0000-7000-8000-000000000000","text":"${filled('x', body)}"}`),
  'a long name of a tool': () => call(filled('x', body), '{}'),
  'many keys in an input': () =>
    call('svc_list_sessions', `{"x":0${Array.from({ length: 70_000 }, (_, at) => `,"k${at}":0`).join('')}}`),
  'four mebibytes of keys in a note of the client': () =>
    `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"x":0${Array.from({ length: 370_000 }, (_, at) => `,"k${at}":0`).join('')}}}}`,
  'a long list in an input': () => call('svc_bind', `{"type":${listOf('[]', body)}}`),
  'a long key of a target': () => call('svc_bind', `{"target":{"type":"svc.generic","key":"${filled('k', body)}"}}`),
  'nesting in an input': () => call('svc_bind', `${'['.repeat(200_000)}${']'.repeat(200_000)}`),
  'many messages at once': () => listOf('{"jsonrpc":"2.0","id":1,"method":"tools/list"}', body),
  'many notifications at once': () => listOf('{"jsonrpc":"2.0","method":"notifications/cancelled"}', body),
  'a long method': () => `{"jsonrpc":"2.0","id":1,"method":"${filled('m', body)}"}`,
  'a long id': () => `{"jsonrpc":"2.0","id":"${filled('i', body)}","method":"tools/list"}`,
};
