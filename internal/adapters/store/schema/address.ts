// The addresses of a database as the driver reads them, before anything is asked of a server.

import pg from 'pg';
import { type Config, ConfigError } from '../../../base/config/config.ts';

/**
 * Throws ConfigError naming the setting where the driver cannot read an address, or a file of certificates that it names.
 * The message holds no part of the address but the name of that file.
 */
export function checkAddresses({
  databaseUrl,
  databaseDirectUrl,
}: Pick<Config, 'databaseUrl' | 'databaseDirectUrl'>): void {
  const given = { SVC_DATABASE_URL: databaseUrl, SVC_DATABASE_DIRECT_URL: databaseDirectUrl };
  for (const [setting, url] of Object.entries(given)) {
    try {
      // Makes no connection.
      if (url !== undefined) void new pg.Client({ connectionString: url }).host;
    } catch (error) {
      const why = error instanceof URIError ? 'a % in it begins no escape' : (error as Error).message;
      throw new ConfigError(setting, `cannot be used: ${why}`);
    }
  }
}
