// The common recipe with node-redis around a command, as a peer in the bench:
//
//   node recipe-node-redis.cjs PORT NAME COMMAND...      exit status: the command's, or 75 when held
const { randomBytes } = require('crypto');
const { spawn } = require('child_process');
const { createClient } = require('redis');

const [port, name, command, ...words] = process.argv.slice(2);
const release = "if redis.call('GET',KEYS[1])==ARGV[1] then return redis.call('DEL',KEYS[1]) end return 0";

async function main() {
    const client = createClient({ url: 'redis://127.0.0.1:' + port });
    const key = 'lock:' + name;
    const token = randomBytes(16).toString('hex');
    await client.connect();
    if (await client.set(key, token, { NX: true, PX: 60000 }) !== 'OK') {
        client.destroy();
        return 75;
    }
    const status = await new Promise((resolve) =>
        spawn(command, words, { stdio: 'inherit' }).on('exit', resolve));
    await client.eval(release, { keys: [key], arguments: [token] });
    client.destroy();
    return status;
}

main().then((status) => { process.exitCode = status; });
