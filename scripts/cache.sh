#!/usr/bin/env bash
# Prints the folder for everything that outlives a checkout: native archive, build output, installed clients.
printf '%s\n' "${QUARRY_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/quarry}"
