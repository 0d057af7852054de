#!/usr/bin/env bash
# Makes the files beside it with Debian 12's zstd and pzstd (1.5.4). `content` is what the good ones unpack to.
set -euo pipefail
cd "$(dirname "$0")"
seq 1 500 >content
zstd -q -f content -o single.zst
zstd -q -f --no-check content -o no-checksum.zst
zstd -q <content >size-not-stated.zst  # from a pipe
zstd -q -f -19 --ultra content -o level-19.zst
zstd -q -f --no-compress-literals --format=zstd -1 content -o plain-literals.zst
head -c 700 content >part && zstd -q -f part -o part.zst
tail -c +701 content | zstd -q >rest.zst
cat part.zst rest.zst >two-frames.zst
pzstd -q -f -p 2 content -o pzstd.zst
printf '' | zstd -q >nothing.zst
cat nothing.zst single.zst nothing.zst >empty-frames.zst
# Refused: a window of 256 MiB, a dictionary.
zstd -q --long=28 <content >window.zst
for i in $(seq 1 200); do seq "$i" $((i + 40)) >sample-"$i"; done
zstd -q --train --maxdict=1024 sample-* -o dictionary >/dev/null 2>&1
zstd -q -f -D dictionary content -o dictionary.zst
rm -f part part.zst rest.zst nothing.zst dictionary sample-*
