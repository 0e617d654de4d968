! SPDX-FileCopyrightText: The h5lossy authors
! SPDX-License-Identifier: BSD-3-Clause

! Write a compressed dataset with HDF5 in Fortran, read it back, and print the largest error.
!
!   h5fc -shlib hdf5.f90 -o hdf5_fortran
!   HDF5_PLUGIN_PATH=$(h5lossy plugin-path) ./hdf5_fortran a.h5

program write_hdf5
  use, intrinsic :: iso_fortran_env, only: error_unit, real32, real64
  use hdf5
  implicit none

  integer, parameter :: columns = 500, rows = 300, filter = 46412
  integer, parameter :: mandatory = 0  ! H5Z_FLAG_MANDATORY, which the module lacks
  real(real64), parameter :: bound = 1e-3_real64
  real(real32), parameter :: fill = -999
  ! The file has the extents in the opposite order: 300 x 500, in chunks of 100 x 250.
  integer(hsize_t), parameter :: extents(2) = [columns, rows], chunk(2) = [250, 100]

  real(real32) :: values(columns, rows), decoded(columns, rows)
  character(len=4096) :: path
  integer(hid_t) :: file, space, creation, t
  integer :: x, y, error, cd_values(4)
  logical :: is_available

  path = "a.h5"
  if (command_argument_count() > 0) call get_command_argument(1, path)
  do concurrent (x = 1:columns, y = 1:rows)
    values(x, y) = merge(fill, 280 + 20 * sin(y / 40.0) * cos(x / 60.0), x < 60 .and. y < 40)
  end do

  ! PFPL (1) with an absolute bound (0); h5lossy cd-values prints the words of others.
  cd_values(1:2) = [1, 0]
  cd_values(3:4) = transfer(bound, cd_values(3:4))

  call h5open_f(error)
  call h5zfilter_avail_f(filter, is_available, error)
  if (.not. is_available) then
    write (error_unit, "(a)") "HDF5 does not find h5lossy: export HDF5_PLUGIN_PATH=$(h5lossy plugin-path)"
    stop 1
  end if
  call h5fcreate_f(trim(path), H5F_ACC_TRUNC_F, file, error)
  call check("h5fcreate_f")
  call h5screate_simple_f(2, extents, space, error)
  call h5pcreate_f(H5P_DATASET_CREATE_F, creation, error)
  call h5pset_chunk_f(creation, 2, chunk, error)
  call check("h5pset_chunk_f")
  call h5pset_fill_value_f(creation, H5T_NATIVE_REAL, fill, error)  ! comes back bit for bit
  call check("h5pset_fill_value_f")
  call h5pset_filter_f(creation, filter, mandatory, 4_size_t, cd_values, error)
  call check("h5pset_filter_f")
  call h5dcreate_f(file, "t", H5T_IEEE_F32LE, space, t, error, creation)
  call check("h5dcreate_f")
  call h5dwrite_f(t, H5T_NATIVE_REAL, values, extents, error)
  call check("h5dwrite_f")
  call h5dclose_f(t, error)  ! encodes what is in the chunk cache
  call check("h5dclose_f")
  call h5pclose_f(creation, error)
  call h5sclose_f(space, error)
  call h5fclose_f(file, error)
  call check("h5fclose_f")

  call h5fopen_f(trim(path), H5F_ACC_RDONLY_F, file, error)
  call check("h5fopen_f")
  call h5dopen_f(file, "t", t, error)
  call h5dread_f(t, H5T_NATIVE_REAL, decoded, extents, error)
  call check("h5dread_f")
  call h5dclose_f(t, error)
  call h5fclose_f(file, error)
  call h5close_f(error)

  print "(a, f11.9)", "largest error ", maxval(abs(real(values, real64) - decoded))
  if (any(abs(real(values, real64) - decoded) > bound)) stop 1
  if (any((values == fill) .neqv. (decoded == fill))) stop 1

contains

  subroutine check(what)
    character(len=*), intent(in) :: what

    if (error >= 0) return
    write (error_unit, "(2a)") what, " failed"
    stop 1
  end subroutine check
end program write_hdf5
