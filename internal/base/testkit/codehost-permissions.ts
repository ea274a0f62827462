// Which permission of an installation token the code host asks for, by operation.

import { r } from './codehost-call.ts';

type Need = readonly (readonly [permission: string, level: 'read' | 'write'])[];
const read = (permission: string): Need => [[permission, 'read']];
const write = (permission: string): Need => [[permission, 'write']];

/** First match wins. One of the pairs is enough. */
const rules: readonly (readonly [RegExp, (method: string) => Need])[] = [
  [/\/merge$/, (method) => (method === 'GET' ? read('pull_requests') : write('contents'))],
  [/^\/repos\/\{owner\}\/\{repo\}$|^\/search\/|^\/markdown$|^\/app/, () => read('metadata')],
  [/\/collaborators$/, () => read('metadata')],
  [/\/issues\/comments\/\{comment_id\}$|\/issues\/\{issue_number\}\/comments$/, (method) => both(method)],
  [/\/issues\/(comments\/\{comment_id\}|\{issue_number\})\/reactions$/, (method) => both(method)],
  [/\/issues\/\{issue_number\}$/, (method) => both(method)],
  [/\/issues|\/labels|\/issue-types/, (method) => [['issues', levelOf(method)]]],
  [/\/pulls/, (method) => [['pull_requests', levelOf(method)]]],
  [/\/actions\/secrets/, (method) => [['secrets', levelOf(method)]]],
  [/\/environments\//, (method) => [['environments', levelOf(method)]]],
  [/\/actions\//, (method) => [['actions', levelOf(method)]]],
  [/\/check-runs/, (method) => [['checks', levelOf(method)]]],
  [/\/status(es)?(\/\{sha\})?$/, (method) => [['statuses', levelOf(method)]]],
  [/\/(contents|git|branches|tags|commits|releases)/, (method) => [['contents', levelOf(method)]]],
];
const levelOf = (method: string): 'read' | 'write' => (method === 'GET' ? 'read' : 'write');
const both = (method: string): Need => [
  ['issues', levelOf(method)],
  ['pull_requests', levelOf(method)],
];

/** Whether a token with these permissions may do it. */
export function mayDo(operation: string, permissions: { readonly [name: string]: string }): boolean {
  const [method = '', path = ''] = operation.split(' ');
  const need = rules.find(([pattern]) => pattern.test(path.replace(r, path === r ? r : '')) || pattern.test(path))?.[1](
    method,
  );
  return (need ?? []).some(
    ([name, level]) => name === 'metadata' || permissions[name] === 'write' || permissions[name] === level,
  );
}
