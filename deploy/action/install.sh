#!/usr/bin/env bash
# Install tenantcron for the steps after this one: the commit of the action, or a release.
set -euo pipefail

source=$(cd "$(dirname "$0")/../.." && pwd)
environment=$RUNNER_TEMP/tenantcron
version=${INPUT_VERSION:-}

if [[ -n $version && ! $version =~ ^[0-9]+(\.[0-9]+)*((a|b|rc)[0-9]+)?$ ]]; then
  echo "::error::The input version must be a release such as 0.1.0"
  exit 2
fi
python -m venv "$environment"
pip=("$environment/bin/python" -m pip --quiet --disable-pip-version-check install)
if [[ -n $version ]]; then
  "${pip[@]}" --only-binary :all: "tenantcron==$version"
else
  # Only wheels whose hashes are in locks/; the package itself is built without the network.
  "${pip[@]}" --require-hashes --only-binary :all: \
    --requirement "$source/locks/build.txt" --requirement "$source/locks/runtime.txt"
  "${pip[@]}" --no-deps --no-build-isolation --no-index "$source"
fi
echo "$environment/bin" >>"$GITHUB_PATH"
