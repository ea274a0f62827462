// Every service of the daemon, one line each.

import type { Service } from './service.ts';
import { keyServices } from './key-services.ts';
import { syncServices } from './sync-services.ts';
import { tenancyServices } from './tenancy-services.ts';

export const services: readonly Service[] = [...syncServices, ...tenancyServices, ...keyServices];
