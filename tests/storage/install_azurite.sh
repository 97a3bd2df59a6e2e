#!/usr/bin/env bash
# install_azurite.sh FOLDER: puts Azurite, the emulator of Azure's Blob storage, from npm into FOLDER, unless that version is there already.
set -euo pipefail

version=3.37.0
folder=$1

if ! grep -q "\"version\": \"$version\"" "$folder/node_modules/azurite/package.json" 2>/dev/null; then
  npm install --prefix "$folder" --no-audit --no-fund --loglevel=error "azurite@$version" >&2
fi
