# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Make test input with the real libraries, deterministically."""
