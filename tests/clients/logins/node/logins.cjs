// Logs in as cases.json says, with the Node.js driver. Usage: node logins.cjs CASES PART HOST:PORT FOLDER
// The same program as python/logins.py, which says what is printed.
'use strict';
const { readFileSync, copyFileSync } = require('node:fs');
const { join } = require('node:path');
const { MongoClient, MongoServerError, MongoServerSelectionError, MongoNetworkError, ObjectId } = require('mongodb');
const { version } = require('mongodb/package.json');

function connect(given, address, folder) {
  const [host, port] = address.split(':');
  const query = given.query ?? 'directConnection=true';
  const options = ['appName=logins-node', 'serverSelectionTimeoutMS=3000', 'maxPoolSize=1', query];
  if (given.tls ?? true) {
    options.push('tls=true', `tlsCAFile=${join(folder, given.ca ?? 'ca.pem')}`);
    if (given.certificate) options.push(`tlsCertificateKeyFile=${join(folder, given.certificate)}`);
  }
  if (given.mechanism) options.push(`authMechanism=${given.mechanism}`);
  let login = '';
  if (given.user) {
    const password = given.password === undefined ? '' : `:${encodeURIComponent(given.password)}`;
    login = `${encodeURIComponent(given.user)}${password}@`;
    options.push(`authSource=${encodeURIComponent(password ? given.source ?? 'admin' : '$external')}`);
  }
  return new MongoClient(`mongodb://${login}${given.host ?? host}:${port}/?${options.join('&')}`);
}

async function act(client, step, heldId) {
  const admin = client.db('admin');
  const items = client.db('logins').collection('items');
  if (step === 'who') {
    const { authInfo } = await admin.command({ connectionStatus: 1 });
    return authInfo.authenticatedUsers.map(({ user, db }) => `${user}@${db}`).join(' ');
  }
  if (step === 'find') {
    const found = await items.findOne({ _id: 'seed' });
    return JSON.stringify(found) === '{"_id":"seed","n":1}' ? 'ok' : 'another document';
  }
  if (step === 'insert') {
    const key = new ObjectId();
    await items.insertOne({ _id: key, by: 'node' });
    return (await items.countDocuments({ _id: key })) === 1 ? 'ok' : 'not inserted';
  }
  if (step === 'same') return (await admin.command({ hello: 1 })).connectionId === heldId ? 'ok' : 'another connection';
  if (step === 'elsewhere') await client.db('elsewhere').collection('items').findOne();
  else if (step === 'rotate') await admin.command({ rotateCertificates: 1 });
  else return 'no such step';
  return 'ok';
}

async function outcome(client, step, heldId) {
  try {
    return [await act(client, step, heldId), ''];
  } catch (error) {
    if (error instanceof MongoServerError) return [String(error.code), error.message];
    if (error instanceof MongoServerSelectionError || error instanceof MongoNetworkError) return ['refused', error.message];
    throw error;
  }
}

async function main([cases, part, address, folder]) {
  let count = 0;
  let wrong = 0;
  const root = { user: 'root', password: 'pass-root', ca: 'both-ca.pem', ...(part === 'strict' && { certificate: 'stranger.pem' }) };
  const held = connect(root, address, folder);
  try {
    const heldId = (await held.db('admin').command({ hello: 1 })).connectionId;
    for (const given of JSON.parse(readFileSync(cases, 'utf8'))[part]) {
      if (given.install) copyFileSync(join(folder, given.install), join(folder, 'server.pem'));
      const client = given.held ? held : connect(given, address, folder);
      for (const [step, expected] of given.steps) {
        const [came, why] = await outcome(client, step, heldId);
        count += 1;
        if (came !== expected) wrong += 1;
        const verdict = came === expected ? 'ok' : `WRONG, expected ${expected}`;
        console.log(`  ${verdict}: ${given.name}: ${step}: ${came} ${why.slice(0, 200)}`.trimEnd());
      }
      if (client !== held) await client.close();
    }
  } finally {
    await held.close();
  }
  console.log(`Node.js driver ${version}: ${count} steps, ${wrong} wrong`);
  process.exitCode = wrong ? 1 : 0;
}

main(process.argv.slice(2)).catch((error) => {
  console.error('Node.js driver:', error);
  process.exitCode = 1;
});
