// The lock of npm's redlock, over ioredis, around a command, as a peer in the bench:
//
//   node recipe-redlock.cjs PORT NAME COMMAND...      exit status: the command's, or 75 when held
const { spawn } = require('child_process');
const { Redis } = require('ioredis');
const Redlock = require('redlock');

const [port, name, command, ...words] = process.argv.slice(2);

async function main() {
    const client = new Redis({ host: '127.0.0.1', port: Number(port) });
    const locks = new Redlock([client], { retryCount: 0 });
    let lock;
    try {
        lock = await locks.lock('lock:' + name, 60000);
    } catch (error) {
        client.disconnect();
        return 75;
    }
    const status = await new Promise((resolve) =>
        spawn(command, words, { stdio: 'inherit' }).on('exit', resolve));
    await lock.unlock();
    client.disconnect();
    return status;
}

main().then((status) => { process.exitCode = status; });
