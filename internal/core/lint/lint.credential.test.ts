import assert from 'node:assert/strict';
import { test } from 'node:test';
import { looksLikeCredential, maskCredentials, maskLine } from '../../domain/credential.ts';
import { withoutEnd } from '../../domain/text.ts';

const long = 'aB3'.repeat(12);
const credentials: readonly string[] = [
  `ghp_${long}`,
  `ghs_${long}`,
  `github_pat_11AAAAAAA0${long}`,
  `glpat-${long.slice(0, 20)}`,
  'xoxb-1234567890-1234567890-abcdefABCDEF',
  `sk-ant-api03-${long}`,
  `sk_live_${long}`,
  `sk-proj-${long}`,
  'AKIAIOSFODNN7EXAMPLE',
  'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY',
  `eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.${long}`,
  '-----BEGIN RSA PRIVATE KEY-----',
  `npm_${long}`,
  `svc_${'Ab1-'.repeat(11).slice(0, 43)}`,
  'https://user:hunter2@x.test/path',
  'https://hunter2@x.test',
  'Authorization: Bearer abcdefgh12345678',
  'q9X7c2LmZ0vT5bR8nK1wE4yU6iO3pA7s',
  // In small letters alone, and beside a name that is none.
  'npm_abcdefghijklmnopqrstuvwxyzabcdefghij',
  'hf_abcdefghij',
  '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',
  'glpat-ab_cdefghijklm-nopqrstuvwxyzabcdefgh',
  'sk_live_abcdefghijklmnopqrstuvwx',
  // Made up, as in an example, of words and small numbers.
  'sk-ant-api03-abcdefghijklmnop',
  'xoxb-1111-2222-abcdefghij',
  'ghp_some_secret_token',
  'whsec_my_secret_value',
  `npm_registry_token=npm_${long}`,
  `npm_registry_token-npm_${long}`,
];

const harmless: readonly string[] = [
  '',
  'a',
  'main',
  'svc_bind',
  'svc_sessions_spawn',
  'https://x.test/a@b?c=d@e',
  'git@host:a/b.git',
  'someone@example.com',
  '3606b39f9c1f2f6c2a5c9a3f1d2e4b5a6c7d8e9f',
  'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
  '0190f3a2-7c1e-7d3b-9a4f-1b2c3d4e5f60',
  'a-skill-of-many-words-that-is-quite-long-and-plain',
  'codehost.pull_request_review_comment.created',
  '$.codehost.repository.fullName',
  'task-runner-of-the-first-floor',
  'vendor/model-name-with-a-long-tail-2026-01-01',
  'Europe/Paris',
  'npm_registry_token',
  'hf_model_cache_2',
  'lin_oauth_client.key',
  'pypi-upload-token',
  'github_pat_readonly_token',
];

test('what has the form of a credential is one, and is starred at its length', () => {
  for (const text of credentials) {
    assert.ok(looksLikeCredential(text), text);
    assert.equal(maskCredentials(`x ${text} y`).length, text.length + 4);
  }
});

test('names, keys, hashes, paths and addresses are none', () => {
  for (const text of harmless) assert.equal(maskCredentials(text), text);
});

test('a credential in a text is starred, and the rest of the text stays', () => {
  assert.equal(maskCredentials(`token ghp_${long} here`), `token ${'*'.repeat(40)} here`);
  assert.equal(maskCredentials('see https://u:p@x.test/a'), 'see https://***@x.test/a');
  assert.equal(maskCredentials(`cut "ghp_${long.slice(0, 20)}…"`), `cut "${'*'.repeat(24)}…"`);
});

const linesList: readonly (readonly [line: string, shown: string])[] = [
  ['auth: {kind: bearer, token: hunter2}', 'auth: {kind: bearer, token: *******}'],
  ['auth: {kind: bearer, token: "hunter, 2"}', 'auth: {kind: bearer, token: ***********}'],
  ["  token: 'it''s'  # why", '  token: *******  # why'],
  ['{"token": "hunter2", "a": 1}', '{"token": *********, "a": 1}'],
  ['token: {$secret: name}', 'token: {$secret: name}'],
  ['token: {$secret: "not a name!"}', 'token: {$secret: *************}'],
  ['token: {$secrt: hunter2}', 'token: {$secrt: *******}'],
  ['auth: {kind: bearer_token, secretRef: my-secret}', 'auth: {kind: bearer_token, secretRef: my-secret}'],
  ['secretRef: what is this', 'secretRef: ************'],
  ['env: {API_TOKEN: hunter2, LEVEL: debug}', 'env: {API_TOKEN: *******, LEVEL: debug}'],
  ['env: {DB_PASSWORD: {$secret: db}}', 'env: {DB_PASSWORD: {$secret: db}}'],
  ['where: {$.codehost.push.ref: refs/heads/main}', 'where: {$.codehost.push.ref: refs/heads/main}'],
  ['capabilities: {secrets: read}', 'capabilities: {secrets: read}'],
  ['name: a', 'name: a'],
  ['token: "never closed', 'token: *************'],
];

test('in a line, the value of a field that holds a credential is starred, the name of a secret is not', () => {
  for (const [line, shown] of linesList) assert.equal(maskLine(line), shown);
});

test('a hostile line takes no time', () => {
  const lines = ['$a:'.repeat(50_000), `token: "${'\\'.repeat(100_000)}`, '://'.repeat(50_000), 'sk-'.repeat(50_000)];
  for (const line of lines) assert.equal(maskLine(line).length, line.length);
});

test('only what a text ends with is taken away', () => {
  for (const [text, of, left] of [
    ['a//', '/', 'a'],
    ['//a/b', '/', '//a/b'],
    ['///', '/', ''],
    ['', '/', ''],
    ['a. . ', '. ', 'a'],
    ['é==', '=', 'é'],
  ] as const)
    assert.equal(withoutEnd(text, of), left);
});
