// Markup as tagged templates that make nodes, never text: payloads and names are text nodes whatever they hold.

import htm from 'htm';
import { h, type VNode } from 'preact';

export type Markup = VNode;
type Tag = (strings: TemplateStringsArray, ...values: unknown[]) => Markup;

// The library's own type allows several roots; templates here have one.
export const html = (htm as unknown as { bind(make: typeof h): Tag }).bind(h);
