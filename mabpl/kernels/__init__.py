"""The kernels: plain loops over sorted arrays with offsets. No tables, no other files, no names of columns.

Each file is loaded in two ways (see :mod:`mabpl.engine`): as it stands, which is fastest for small jobs, and compiled
by numba, which is fastest for large ones. Each stands alone, with its constants: numba's cache does not see a change in
another file.
"""
