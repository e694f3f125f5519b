// Logs in as cases.json says, within mongosh, which has logged in itself by options of the command line.
// Usage: CASES= PART= ADDRESS= FOLDER= mongosh OPTION... --file logins.js
// The same program as python/logins.py, which says what is printed; the connection that is held is the shell's own.
/* global db, print, process, require, version, quit, ObjectId, Mongo, EJSON */
const { readFileSync, copyFileSync } = require('fs');
const { CASES: cases, PART: part, ADDRESS: address, FOLDER: folder } = process.env;

function uri(given) {
  const [host, port] = address.split(':');
  const query = given.query ?? 'directConnection=true';
  const options = ['serverSelectionTimeoutMS=3000', 'maxPoolSize=1', query];
  if (given.tls ?? true) {
    options.push('tls=true', `tlsCAFile=${folder}/${given.ca ?? 'ca.pem'}`);
    if (given.certificate) options.push(`tlsCertificateKeyFile=${folder}/${given.certificate}`);
  }
  if (given.mechanism) options.push(`authMechanism=${given.mechanism}`);
  let login = '';
  if (given.user) {
    const password = given.password === undefined ? '' : `:${encodeURIComponent(given.password)}`;
    login = `${encodeURIComponent(given.user)}${password}@`;
    options.push(`authSource=${encodeURIComponent(password ? given.source ?? 'admin' : '$external')}`);
  }
  return `mongodb://${login}${given.host ?? host}:${port}/?${options.join('&')}`;
}

function act(admin, step, heldId) {
  const items = admin.getSiblingDB('logins').items;
  if (step === 'who') {
    const { authInfo } = admin.runCommand({ connectionStatus: 1 });
    return authInfo.authenticatedUsers.map(({ user, db: of }) => `${user}@${of}`).join(' ');
  }
  if (step === 'find') return EJSON.stringify(items.findOne({ _id: 'seed' })) === '{"_id":"seed","n":1}' ? 'ok' : 'another document';
  if (step === 'insert') {
    const key = new ObjectId();
    items.insertOne({ _id: key, by: 'mongosh' });
    return items.countDocuments({ _id: key }) === 1 ? 'ok' : 'not inserted';
  }
  if (step === 'same') return String(admin.hello().connectionId) === heldId ? 'ok' : 'another connection';
  if (step === 'elsewhere') admin.getSiblingDB('elsewhere').items.findOne();
  else if (step === 'rotate') admin.runCommand({ rotateCertificates: 1 });
  else return 'no such step';
  return 'ok';
}

function failure(error) {
  if (error.code !== undefined && /^Mongo(Server|WriteConcern|BulkWrite)Error$/.test(error.name)) return String(error.code);
  if (/^Mongo(ServerSelection|Network|NetworkTimeout)Error$/.test(error.name)) return 'refused';
  return `${error.name}: ${error.message}`;
}

let count = 0;
let wrong = 0;
const heldId = String(db.hello().connectionId);
for (const given of JSON.parse(readFileSync(cases, 'utf8'))[part]) {
  if (given.install) copyFileSync(`${folder}/${given.install}`, `${folder}/server.pem`);
  let connection = null;
  for (const [step, expected] of given.steps) {
    let came;
    let why = '';
    try {
      if (!given.held && connection === null) connection = new Mongo(uri(given));
      came = act(given.held ? db.getSiblingDB('admin') : connection.getDB('admin'), step, heldId);
    } catch (error) {
      came = failure(error);
      why = error.message;
    }
    count += 1;
    if (came !== expected) wrong += 1;
    const verdict = came === expected ? 'ok' : `WRONG, expected ${expected}`;
    print(`  ${verdict}: ${given.name}: ${step}: ${came} ${why.slice(0, 200)}`.trimEnd());
  }
  if (connection !== null) connection.close();
}
print(`mongosh ${version()}: ${count} steps, ${wrong} wrong`);
quit(wrong ? 1 : 0);
