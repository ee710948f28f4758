#!/usr/bin/env bash
# The same from the shell: a model with known error, predictions for ParaView, and a report. Argument: seconds to train.
set -euo pipefail

skop describe 'runs/*.vtu' --target mises --params doe.csv
skop fit 'runs/*.vtu' --target mises --params doe.csv --test-fraction 0.2 \
  --max-time "${1:-120}" --epochs 1000 --report report.html --output model.skop --force
skop score model.skop 'runs/*.vtu' --params doe.csv
skop predict model.skop 'runs/run_00*.vtu' --params doe.csv --output predicted/ --force
