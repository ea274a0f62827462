// `svc validate --format`: diagnostics as the checks of code hosts read them. Files are named from where the command runs,
// since annotations are placed by that.

import type { Diagnostic } from '../../domain/diagnostic.ts';
import { cleanDocument } from './text.ts';

export type CheckFormat = 'github' | 'sarif' | 'junit';

interface Checked {
  readonly diagnostics: readonly Diagnostic[];
  /** From the working directory to the tree, '' where they are the same. */
  readonly prefix: string;
  readonly version: string;
}

const textOf = ({ message, hint }: Diagnostic): string => (hint === undefined ? message : `${message}\n${hint}`);
const placeOf = ({ prefix }: Checked, file: string | undefined): string =>
  [prefix, file ?? '.svc'].filter((part) => part !== '').join('/');

export function checkText(format: CheckFormat, checked: Checked): string {
  if (format === 'github') return github(checked);
  return format === 'sarif' ? cleanDocument(sarif(checked)) : junit(checked);
}

// Commands of a workflow: the data and the properties are escaped apart.
const data = (text: string): string => text.replaceAll('%', '%25').replaceAll('\r', '%0D').replaceAll('\n', '%0A');
const property = (text: string): string => data(text).replaceAll(':', '%3A').replaceAll(',', '%2C');

function github(checked: Checked): string {
  return checked.diagnostics
    .map((one) => {
      const at = {
        file: placeOf(checked, one.file),
        line: one.line,
        endLine: one.endLine,
        col: one.column,
        endColumn: one.endLine === one.line ? one.endColumn : undefined,
        title: `svc: ${one.code}`,
      };
      const properties = Object.entries(at)
        .filter(([, value]) => value !== undefined)
        .map(([name, value]) => `${name}=${property(String(value))}`);
      return `::${one.severity} ${properties.join(',')}::${data(textOf(one))}`;
    })
    .join('\n');
}

function sarif(checked: Checked): string {
  const codes = [...new Set(checked.diagnostics.map(({ code }) => code))].sort();
  const results = checked.diagnostics.map((one) => ({
    ruleId: one.code,
    ruleIndex: codes.indexOf(one.code),
    level: one.severity,
    message: { text: textOf(one) },
    locations: [
      {
        physicalLocation: {
          artifactLocation: { uri: encodeURI(placeOf(checked, one.file)), uriBaseId: '%SRCROOT%' },
          ...(one.line !== undefined && {
            region: {
              startLine: one.line,
              startColumn: one.column ?? 1,
              ...(one.endLine !== undefined && { endLine: one.endLine }),
              ...(one.endColumn !== undefined && { endColumn: one.endColumn }),
            },
          }),
        },
      },
    ],
  }));
  const rules = codes.map((id) => ({ id, shortDescription: { text: id.replaceAll('-', ' ') } }));
  return JSON.stringify(
    {
      $schema: 'https://json.schemastore.org/sarif-2.1.0.json',
      version: '2.1.0',
      runs: [
        {
          tool: { driver: { name: 'svc', semanticVersion: checked.version, rules } },
          columnKind: 'utf16CodeUnits',
          results,
        },
      ],
    },
    null,
    2,
  );
}

const xml = (text: string): string =>
  text
    // What XML has no way to say.
    .replaceAll(/[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu, '\ufffd')
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
    .replaceAll('\n', '&#10;');

// A case a file that something is said of, and one for the tree where nothing is; warnings are told without failing it.
function junit(checked: Checked): string {
  const files = Map.groupBy(checked.diagnostics, ({ file }) => placeOf(checked, file));
  const errors = checked.diagnostics.filter(({ severity }) => severity === 'error');
  const line = (one: Diagnostic): string =>
    `${placeOf(checked, one.file)}:${one.line ?? 1}:${one.column ?? 1}: ${one.severity} [${one.code}] ${textOf(one)}`;
  const cases = [...files].map(([file, all]) => {
    const failed = all.filter(({ severity }) => severity === 'error');
    const warned = all.filter(({ severity }) => severity === 'warning');
    const parts = [
      ...failed.map(
        (one) => `      <failure type="${xml(one.code)}" message="${xml(one.message)}">${xml(line(one))}</failure>`,
      ),
      ...(warned.length === 0 ? [] : [`      <system-out>${xml(warned.map(line).join('\n'))}</system-out>`]),
    ];
    return `    <testcase classname="svc" name="${xml(file)}">\n${parts.join('\n')}\n    </testcase>`;
  });
  if (cases.length === 0) cases.push('    <testcase classname="svc" name="tree" />');
  const failed = new Set(errors.map(({ file }) => file)).size;
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    '<testsuites>',
    `  <testsuite name="svc validate" tests="${cases.length}" failures="${failed}" errors="0">`,
    ...cases,
    '  </testsuite>',
    '</testsuites>',
  ].join('\n');
}
