"""The runtime: from the arguments of a launch to native code. It knows no backend.

A launch: `signature`, `arrays`, `specialization`, `versions`, `launch`, `launches`, `launch_text`, `arena`, `mode`,
`slow`. Cache on disk: `disk_cache`; `pickling`. Devices: `devices`, `device_arrays`, `staging`, `places`, `acl`,
`simulator`, `dlpack`. Tensors of torch: `tensors`. Checked launches and trials: `owners`, `copies`. Beside them:
`collection`.
"""
